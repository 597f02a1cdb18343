"""The story that ``headwater demo`` tells, act by act. Each act is a function; each wait has a deadline.

The acts change the folder and look at the catalog, the command line and the disk. They never touch the pipeline's own
state: what they show is what the agent and the consumer groups did by themselves.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from threading import Thread
from urllib.request import urlopen

from blake3 import blake3
from prometheus_client.parser import text_string_to_metric_families

from headwater.demo import edits, media
from headwater.demo.cast import a_file_is_cast
from headwater.demo.commands import LOOK_SECONDS, shown
from headwater.demo.edits import Picker
from headwater.demo.jobs import videos_are_made
from headwater.demo.trees import require_equal, tree_of
from headwater.demo.view import size
from headwater.demo.workplace import DELETE_HOLD_SECONDS
from headwater.demo.world import World
from headwater.rules.errors import Corrupt, Unavailable
from headwater.stack import processes

RECORDING_SECONDS = 6.0
LARGEST_COPY_BYTES = 2_000_000_000
"""Of a folder of the user's own this much is copied: the demo should end in minutes."""
CARRIED_SECONDS = 300.0
IN_FLIGHT_SECONDS = 60.0
"""Deadlines: many times what two slow cores need, so that only a real fault reaches them."""
UPLOADERS = ("upload-files", "upload-parts")


def play(world: World) -> None:
    """All acts in order. Raises Unavailable where a wait runs out, Corrupt where a check fails."""
    a_folder_appears(world)
    people_work(world)
    uploaders_die(world)
    every_byte_is_checked(world)
    a_file_is_cast(world)
    videos_are_made(world)


def a_folder_appears(world: World) -> None:
    world.screen.act(
        1,
        "A folder appears",
        "The agent waits until each file is quiet, hashes it and records it on the log; the upload groups send each "
        "content once; the verify groups read every byte back; the committer makes a version of what is verified.",
    )
    report = media.copy_tree(world.found, world.place.media, LARGEST_COPY_BYTES)
    world.screen.say(f"copied {report.files} files, {size(report.bytes)}, from {world.found}: only the copy is changed")
    if report.over_the_limit or report.unreadable:
        world.screen.say(
            f"left out: {report.over_the_limit} files beyond {size(LARGEST_COPY_BYTES)}, {report.unreadable} unreadable"
        )
    _carried(world)
    _commit(world, "the folder as it was found")


def people_work(world: World) -> None:
    world.screen.act(
        2,
        "People work in the folder, while it runs",
        f"Edits, atomic saves, renames, deletes, a recording that grows. A file that is gone counts as deleted after "
        f"{DELETE_HOLD_SECONDS} s in this demo (delete_hold_seconds, 60 by default): it may turn up again as a rename.",
    )
    folder = world.place.media
    picker = Picker(folder, world.random)
    recording = Thread(target=edits.record, args=(folder / "recording in progress.raw", RECORDING_SECONDS))
    recording.start()
    world.screen.say(f"started a recording that grows for {RECORDING_SECONDS:.0f} s: not touched before it is quiet")
    changes: tuple[Callable[[], list[str]], ...] = (
        lambda: edits.rename_a_folder(picker),
        lambda: edits.rename_files(picker, 4),
        lambda: edits.overwrite_in_the_middle(picker),
        lambda: edits.retouch(picker, 5),
        lambda: edits.save_atomically(picker, 3),
        lambda: edits.delete(picker, 6),
    )
    for change in changes:
        for said in change():
            world.screen.say(said)
        _look(world)
    before = _claimed_bytes(world)
    recording.join()
    _carried(world)
    world.screen.check("the catalog equals the folder again")
    world.screen.check(f"sent for all of that: {size(_claimed_bytes(world) - before)}; renames cost no byte")


def uploaders_die(world: World) -> None:
    world.screen.act(
        3,
        "kill -9 in the middle of work",
        "A camera's card is copied in. While its clips are being sent in parts, both upload members are killed, and "
        "started again: they take up where the catalog and S3 say that they stopped.",
    )
    for said in edits.arrive(world.arrivals, world.place.media):
        world.screen.say(said)
    before = world.river.parts()
    _wait(
        world,
        "the first parts of the new clips to be in S3",
        lambda: world.river.parts().in_s3 > before.in_s3,
        IN_FLIGHT_SECONDS,
    )
    pids = [_kill(world, name) for name in UPLOADERS]
    cut = world.river.parts()
    world.screen.say(f"kill -9 {' '.join(map(str, pids))}: {' and '.join(UPLOADERS)}")
    world.screen.say(f"parts of the new clips that S3 has: {cut.in_s3 - before.in_s3}")
    world.headwater("up", meanwhile=partial(_look, world))
    world.screen.say("headwater up started both again; Kafka gives them their partitions once it misses the dead (6 s)")
    _carried(world)
    world.screen.check("nothing is lost: the catalog equals the folder")
    new, had, sent = world.river.parts().known - before.known, cut.in_s3 - before.in_s3, _parts_sent(world)
    if had + sent > new:
        raise Corrupt(
            f"S3 had {had} of {new} parts, and {sent} were sent after the restart.",
            asked="Parts that S3 had were not to be sent again.",
            kept="The bytes are right; some were sent twice.",
            advice=f"See upload-parts.log in {world.place.logs}.",
        )
    under_way = f", {new - had - sent} more were on their way" if new > had + sent else ""
    world.screen.check(f"nothing is sent twice: of {new} parts S3 had {had}{under_way}; the new member sent {sent}")


def every_byte_is_checked(world: World) -> None:
    world.screen.act(
        4,
        "Version 2, and the proof",
        "What changed between the two versions, the product's own deep check, and one that shares no code with it.",
    )
    _commit(world, "after the edits, the renames, the deletes and the card")
    _quote(world, "dataset", "diff", "1", "2")
    _quote(world, "dataset", "verify", "latest", "--deep")
    world.screen.waiting("taking version 2 out, and comparing it file by file")
    world.headwater("dataset", "export", "latest", str(world.place.exported), meanwhile=partial(_look, world))
    expected = tree_of(world.place.media)
    require_equal(
        expected,
        tree_of(world.place.exported / world.place.name),
        asked=f"Version 2, exported to {world.place.exported}, was compared with {world.place.media}.",
        advice=f"See the logs in {world.place.logs}.",
    )
    world.screen.waiting("")
    world.screen.check(f"exported version 2: the SHA-256 of all {len(expected)} files equals the folder's")


def _carried(world: World) -> None:
    """Wait until the catalog holds exactly what the folder holds, all of it verified and below complete_to."""
    expected = tree_of(world.place.media, blake3)
    _wait(
        world,
        "every file to be found, sent and verified",
        # The counter first: it costs nothing, the comparison reads every path.
        lambda: (
            world.river.files() == len(expected) and world.river.complete() and world.river.verified_tree() == expected
        ),
        CARRIED_SECONDS,
    )


def _commit(world: World, message: str) -> None:
    _quote(world, "dataset", "commit", "--message", message)
    _look(world)


def _quote(world: World, *arguments: str) -> None:
    """Run a command and show it with its answer."""
    world.screen.waiting(f"running {shown(*arguments[:2])}")
    answer = world.headwater(*arguments, meanwhile=partial(_look, world))
    world.screen.waiting("")
    world.screen.quote(shown(*arguments), answer)


def _parts_sent(world: World) -> int:
    """Parts that the living upload-parts member sent, by its own metrics."""
    processes_now = json.loads(world.headwater("status", "--json"))["processes"]
    url = next(process["url"] for process in processes_now if process["name"] == "upload-parts")
    with urlopen(f"{url}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return sum(
        int(sample.value)
        for family in families
        for sample in family.samples
        if sample.name == "headwater_upload_objects_total"
        and (sample.labels["lane"], sample.labels["outcome"]) == ("parts", "sent")
    )


def _kill(world: World, name: str) -> int:
    running = processes.alive(name, world.place.state)
    if running is None:
        raise _ended(world, name)
    os.kill(running.pid, signal.SIGKILL)
    return running.pid


def _require_alive(world: World) -> None:
    for name in processes.names(world.place.state):
        if not processes.alive(name, world.place.state):
            raise _ended(world, name)


def _ended(world: World, name: str) -> Unavailable:
    log = processes.log_path(name, world.place.state)
    return Unavailable(
        f"{name} has ended by itself: {processes.last_line(log)}",
        asked="The demo needs all its processes.",
        kept=f"All state is kept in {world.place.state}.",
        advice=f"See {log}.",
    )


def _wait(world: World, what: str, done: Callable[[], bool], within_seconds: float) -> None:
    """Look again and again, showing what is seen. A member that died by itself ends the wait at once."""
    deadline = time.monotonic() + within_seconds
    world.screen.waiting(f"waiting for {what}")
    try:
        while not done():
            _look(world)
            _require_alive(world)
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"it did not happen within {within_seconds:.0f} s.",
                    asked=f"The demo waited for {what}.",
                    kept=f"All state is kept in {world.place.state}.",
                    advice=f"See the logs in {world.place.logs}, and `headwater lag`.",
                )
            time.sleep(LOOK_SECONDS)
        _look(world)
    finally:
        world.screen.waiting("")


def _look(world: World) -> None:
    world.screen.show(world.river.snapshot())


def _claimed_bytes(world: World) -> int:
    return next(stage.bytes for stage in world.river.snapshot().stages if stage.name == "claimed")
