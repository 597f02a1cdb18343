"""``headwater demo`` from the first check to the last line: prepare, bring up, play, take down.

What the demo started it stops again, also when it fails or is interrupted; what was stored stays.
"""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from random import Random

import platformdirs

from headwater import settings
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.s3.store import ObjectStore
from headwater.demo import media
from headwater.demo.commands import CommandLine, demo_environment
from headwater.demo.river import River
from headwater.demo.scenario import play
from headwater.demo.tree import ARRIVALS, FULL, TreePlan, TreeSize, arrivals_tree, first_tree
from headwater.demo.view import Screen
from headwater.demo.workplace import SOURCE, Workplace
from headwater.demo.world import World
from headwater.producers.api.config import ApiConfig
from headwater.rules.errors import BadSettings, NotFound
from headwater.stack import processes
from headwater.stack.addresses import from_environment
from headwater.stack.description import Ports
from headwater.stack.home import local_variables, stack_home
from headwater.stack.local import Stack
from headwater.stack.progress import step
from headwater.stack.server import port_is_free

SEED = 2026


@dataclass(frozen=True, slots=True)
class Media:
    """``found`` is there from the start, ``arrivals`` is added while the agent runs; both are copied, never edited."""

    found: Path
    arrivals: Path


def show(
    own_folder: Path | None = None,
    *,
    keep_running: bool = False,
    found: TreeSize = FULL,
    arrivals: TreeSize = ARRIVALS,
    where: Path | None = None,
    screen: Screen | None = None,
) -> None:
    """Run the demo in ``where`` (the current folder), on made media or on a copy of ``own_folder``.

    Raises HeadwaterError: something could not be started, did not happen in time, or came out wrong.
    """
    place = Workplace((where or Path.cwd()).resolve(), _name())
    place.require_ours()
    if own_folder:
        _require_apart(own_folder, place)
    with screen or Screen() as the, ExitStack() as closing:
        the.act(
            0, "The stack", "Apache Kafka, PostgreSQL, an S3 server and lakeFS: the real programs, on this machine."
        )
        headwater = CommandLine(place, colour=the.console.is_terminal, width=the.console.width - 4)
        _clear(place, headwater, the)
        place.prepare(_ports(), _api_ports())
        pool = closing.enter_context(ThreadPoolExecutor(1))
        making = pool.submit(_media, own_folder, found, arrivals, the)
        if not keep_running:
            closing.callback(_take_down, headwater, the)
        world_settings = _bring_up(place, headwater, the)
        made = making.result()
        catalog = closing.enter_context(Catalog(world_settings.needed_catalog(), application="headwater demo"))
        store = ObjectStore(world_settings.needed_s3())
        kafka = Kafka(world_settings.needed_kafka())
        river = River(catalog, kafka, store, place.name)
        play(World(place, the, headwater, kafka, river, Random(SEED), made.found, made.arrivals))
    _closing_words(place, the, keep_running=keep_running)


def _name() -> str:
    """Servers of the user's own may have seen a demo before: a new name keeps this one apart from it."""
    return f"{SOURCE}-{datetime.now():%Y%m%d-%H%M%S}" if from_environment(os.environ) else SOURCE


def _require_apart(folder: Path, place: Workplace) -> None:
    asked = f"The demo was to copy {folder} and carry the copy."
    if not folder.is_dir():
        raise NotFound(
            "it is not a folder.", asked=asked, kept="Nothing was changed.", advice="Name a folder with --folder."
        )
    if place.state.is_relative_to(folder.resolve()) or folder.resolve().is_relative_to(place.state):
        raise BadSettings(
            f"the demo keeps its own files in {place.state}, so one would lie inside the other.",
            asked=asked,
            kept="Nothing was changed.",
            advice="Run the demo from another folder.",
        )


def _clear(place: Workplace, headwater: CommandLine, screen: Screen) -> None:
    homes = (place.state, stack_home(place.state))
    if any(processes.alive(name, home) for home in homes for name in processes.names(home)):
        screen.waiting("stopping the demo before")
        headwater("down")
        screen.waiting("")
    if place.clear():
        screen.say(f"removed what the demo before left in {place.state}: this one starts afresh")


def _ports() -> dict[str, int]:
    """The stack's usual ports where they are free; else, since another stack may have them, any that are."""
    usual = asdict(Ports.default())
    return {} if all(port_is_free(port) for port in usual.values()) else asdict(Ports.free())


def _api_ports() -> dict[str, int]:
    """The same for the HTTP service of generation jobs."""
    usual = ApiConfig()
    if port_is_free(usual.port) and port_is_free(usual.internal_port):
        return {}
    free = Ports.free()
    return {"port": free.s3, "internal_port": free.lakefs}


def _media(own_folder: Path | None, found: TreeSize, arrivals: TreeSize, screen: Screen) -> Media:
    return Media(
        found=own_folder.resolve() if own_folder else _made(first_tree(found, Random(SEED)), screen),
        arrivals=_made(arrivals_tree(arrivals, Random(SEED + 1)), screen),
    )


def _made(plan: TreePlan, screen: Screen) -> Path:
    seconds = 1 + len(plan.photographs) / 20 + len(plan.clips) * 3
    with step(screen.step, "media", f"{len(plan.paths)} photographs and clips", seconds):
        return media.cached(plan, platformdirs.user_cache_path("headwater") / "demo-media")


def _bring_up(place: Workplace, headwater: CommandLine, screen: Screen) -> settings.Settings:
    environment = demo_environment(place)
    own = settings.load(file=place.settings_file, environment=environment)
    Stack(stack_home(place.state), own.stack.ports()).up(screen.step)
    screen.waiting("starting one member of each group, a committer and the agent")
    headwater("up")
    screen.waiting("")
    screen.check(f"running: {', '.join(processes.names(place.state))}")
    return settings.load(file=place.settings_file, environment=environment, local_stack=local_variables)


def _take_down(headwater: CommandLine, screen: Screen) -> None:
    screen.waiting("stopping what the demo started")
    headwater("down")
    screen.waiting("")


def _closing_words(place: Workplace, screen: Screen, *, keep_running: bool) -> None:
    screen.table(
        "Where everything is",
        [
            (str(place.media), "the folder that is synced: change it as you like"),
            (str(place.exported / place.name), "version 2, taken out again"),
            (str(place.peers), "the file that was cast, in a folder for each of eight peers"),
            (str(place.videos), "the video that two workers made"),
            (str(place.settings_file), "the settings: add a source of your own"),
            (str(place.logs), "what our processes log; the servers: .headwater/stack/logs"),
        ],
    )
    headwater = _program()
    screen.table(
        "Go on" if keep_running else "Go on (everything is stopped, all state is kept)",
        [
            (f"{headwater} up", "all of it runs again, from where it stopped"),
            (f"{headwater} progress", "files found, sent, verified, committed"),
            (f"{headwater} lag --watch", "how far each consumer group is behind"),
            (f"{headwater} inspect sync.objects", "the records of a topic, decoded"),
            (f"{headwater} dataset log", "the versions"),
            (f"{headwater} dataset ls latest", "the files of one"),
            (f"{headwater} cast publish FILE --name N", "send one file to every peer: `peer`, `cast watch N`"),
            (f"{headwater} worker --pool demo --model testcard", "a worker, until Ctrl-C; in another window then:"),
            (f'{headwater} jobs submit "a red fox" --model testcard --watch', "have a video made"),
            (f"{headwater} down", "stop; nothing is lost"),
        ],
    )


def _program() -> str:
    """What to type for this ``headwater``: its name where the shell finds it, else its path."""
    here = Path(sys.executable).parent / "headwater"
    found = shutil.which("headwater")
    if found and Path(found).exists() and Path(found).samefile(here):
        return "headwater"
    return os.path.relpath(here) if here.is_relative_to(Path.cwd()) else str(here)
