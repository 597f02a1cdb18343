"""The act in which one file of the dataset goes to eight hosts at once: ``headwater cast``, and a kill on the way.

What is slow about it is asked for: the demo limits the cast so that it can be seen, and lifts the limit at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path

from headwater.connectors.kafka.cast_log import CastLog
from headwater.demo import cast_view
from headwater.demo.commands import shown
from headwater.demo.media import files_below
from headwater.demo.peers import HOSTS, RACKS, Peers
from headwater.demo.trees import content, require_equal, tree_of
from headwater.demo.world import World
from headwater.rules.errors import NotFound

LIMITED_SECONDS = 20
"""So long the cast would take at the rate that it is limited to."""
LARGEST_BYTES = 256 * 1024 * 1024
"""Eight copies of it are written: of a folder of the user's own, a file below this is taken."""
VICTIM = "b2"
OURS = b".headwater-cast/"
"""Below it a peer keeps what is not a file of the user's."""
KILL_AT, START_AT = 0.25, 0.35
"""Shares of the file that the racks have by then."""


def a_file_is_cast(world: World) -> None:
    world.screen.act(
        5,
        "One file to eight hosts",
        "Eight peers in two racks get one large file of version 2: each rack takes each chunk in about once, the rest "
        "goes among rack-mates. What a peer has not checked by its hash, it neither keeps nor passes on.",
    )
    name = f"{world.place.name}-reel"
    file = chosen(world.place.exported / world.place.name)
    with Peers(world.place, world.headwater) as peers:
        command = ("cast", "publish", str(file), "--name", name, "--targets", ",".join(HOSTS))
        world.screen.command(shown(*command))
        with closing(_story(world, peers, name, file.stat().st_size)) as story:
            answer = world.headwater(*command, meanwhile=partial(next, story, None))
        world.screen.answer(answer)
        _every_hash_is_checked(world, peers, file)
        world.screen.quote(shown("cast", "report", name), world.headwater("cast", "report", name))


def chosen(folder: Path) -> Path:
    """The largest file that is not too large; of none but too large ones, the smallest. A name that a shell shows."""
    sizes = {path: path.stat().st_size for path in files_below(folder) if path.is_file() and not path.is_symlink()}
    named = {path: of for path, of in sizes.items() if os.fsencode(path.name).isascii() and path.name.isprintable()}
    fitting = {path: of for path, of in (named or sizes).items() if of <= LARGEST_BYTES}
    return max(fitting, key=lambda path: (fitting[path], path)) if fitting else min(sizes, key=lambda path: sizes[path])


def _story(world: World, peers: Peers, name: str, size_bytes: int) -> Generator[None]:
    """What happens beside the publisher while it publishes. Each ``yield`` is a look at how the cast goes."""
    headwater, screen = world.headwater, world.screen
    while (log := _announced(world, name)) is None:
        yield
    with closing(log):
        look = partial(_look, world, peers, log)
        rate = max(1, size_bytes // LIMITED_SECONDS)
        headwater("cast", "limit", name, "--rate", f"{rate}B/s")
        screen.say(f"headwater cast limit {name} --rate {rate}B/s: slow enough to be watched")
        peers.start(*HOSTS)
        for rack, hosts in RACKS.items():
            screen.say(f"started {' '.join(hosts)} in {rack}: each a `headwater peer` with a folder of its own")
        yield from _until(lambda: look() >= KILL_AT and VICTIM in log.history.steps)
        before = log.history.steps[VICTIM].said.incarnation
        screen.say(f"kill -9 {peers.kill(VICTIM)}: peer {VICTIM}; the others go on without it")
        yield from _until(lambda: look() >= START_AT)
        peers.start(VICTIM)
        yield from _until(lambda: look() > 0 and log.history.steps[VICTIM].said.incarnation > before)
        kept = log.history.steps[VICTIM].said.chunks
        screen.say(f"started {VICTIM} again: of the chunks on its disk {kept} are right by their hash, and stay")
        headwater("cast", "limit", name, "--off", meanwhile=look)
        screen.say(f"headwater cast limit {name} --off")
        while True:
            look()
            yield


def _announced(world: World, name: str) -> CastLog | None:
    try:
        return CastLog(world.kafka, name)
    except NotFound:
        return None


def _until(happened: Callable[[], bool]) -> Iterator[None]:
    while not happened():
        yield


def _look(world: World, peers: Peers, log: CastLog) -> float:
    """Shows how the cast goes; returns the share of the file that the racks have. Raises where a peer has ended."""
    log.catch_up()
    world.screen.present(cast_view.picture(log.history), cast_view.plain(log.history))
    peers.require_alive()
    return cast_view.share(log.history)


def _every_hash_is_checked(world: World, peers: Peers, file: Path) -> None:
    """Each peer's folder holds the file and nothing else, by SHA-256, which the product does not use."""
    expected = content(os.fsencode(file), sha256())
    for host in HOSTS:
        found = {path: hash_ for path, hash_ in tree_of(peers.folder(host)).items() if not path.startswith(OURS)}
        require_equal(
            {os.fsencode(file.name): expected},
            found,
            asked=f"The file that peer {host} has was compared with {file}.",
            advice=f"See {peers.process(host)}.log in {world.place.logs}.",
        )
    world.screen.check(f"all eight have it under its name, and the SHA-256 of each is the source's: {expected[:16]}…")
