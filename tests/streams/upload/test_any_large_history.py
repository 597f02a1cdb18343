"""The law over random histories of large files: they change between parts, members die at any step and write late.

After the log is drained, every large file on disk is stored whole and intact, no claim is open, and no multipart upload
is left behind but those of members that woke up too late. Contents share their first part, so that a change shows late.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headwater.connectors.s3.store import ObjectStore
from headwater.rules.errors import Fenced, HeadwaterError
from headwater.rules.identity import content_hash, object_key
from headwater.schemas.records import ChangeKind, FilePart, SyncRequest
from headwater.streams.runtime.processor import Batch, Output
from headwater.streams.upload.emissions import checked
from headwater.streams.upload.files_lane import FilesLane
from headwater.streams.upload.multipart_uploads import MultipartUploads
from headwater.streams.upload.parts_lane import PartsLane

World = Any
PART = 5 * 1024 * 1024
HEAD = random.Random(0).randbytes(PART)
CONTENTS = [HEAD + b"ending %d" % number for number in range(3)]
PATHS = [b"a.mp4", b"b.mp4", b"c.mp4"]
STEPS: list[tuple[type, str]] = [
    (PartsLane, "own"),
    (PartsLane, "claim"),
    (ObjectStore, "create_multipart"),
    (MultipartUploads, "open"),
    (MultipartUploads, "reconcile"),
    (ObjectStore, "upload_part"),
    (PartsLane, "send"),
    (PartsLane, "mark"),
    (ObjectStore, "abort_multipart"),
    (MultipartUploads, "abandon"),
    (ObjectStore, "complete_multipart"),
    (MultipartUploads, "complete"),
    (PartsLane, "settle"),
    (PartsLane, "outputs"),
]


class Death(Exception):
    """Stands for the end of a process: the lane that met it is never used again."""


class History:
    """An agent, one partition of parts, and the members that own it one after the other."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.log: list[FilePart] = []
        self.committed = 0
        self.assignment = 1
        self.disk: dict[bytes, bytes] = {}
        self.requests: list[SyncRequest] = []
        self.changes = FilesLane(world.config, world.catalog, world.store)
        self.lane = self.new_lane()
        self.late: list[Callable[[], object]] = []
        self.hangs = 0

    def new_lane(self) -> PartsLane:
        config = type(self.world.config)(site="here", part_transfers=1)
        return PartsLane(config, self.world.catalog, self.world.store)

    # The agent

    def emit(self, path: bytes) -> None:
        self.changes.process(self.world.batch(self.world.change(path, ChangeKind.modified, parts=2)))
        self.log += self.world.parts(path, PART)

    def write(self) -> None:
        path = self.random.choice(PATHS)
        self.disk[path] = self.random.choice(CONTENTS)
        self.world.write(path, self.disk[path])
        self.emit(path)

    def delete(self) -> None:
        if self.disk:
            path = self.random.choice(sorted(self.disk))
            del self.disk[path]
            os.unlink(self.world.root / os.fsdecode(path))
            self.changes.process(self.world.batch(self.world.change(path, ChangeKind.deleted)))

    def answer_requests(self) -> None:
        for path in {request.path for request in self.requests} & self.disk.keys():
            self.emit(path)
        self.requests.clear()

    # The members

    def read(self) -> Batch | None:
        records = self.log[self.committed : self.committed + self.random.randint(1, 3)]
        inputs = tuple(
            self.world.input("fs.parts.here", one, self.committed + number) for number, one in enumerate(records)
        )
        return Batch(inputs, self.assignment, lambda: True) if inputs else None

    def commit(self, batch: Batch, outputs: Sequence[Output]) -> None:
        self.committed += len(batch.inputs)
        self.requests += [one.record for one in outputs if isinstance(one.record, SyncRequest)]

    def work(self) -> None:
        if batch := self.read():
            try:
                outputs = self.lane.process(batch)
            except HeadwaterError as error:
                self.assignment += isinstance(error, Fenced)
            else:
                self.commit(batch, outputs)

    def work_and_die(self) -> None:
        lane, batch = self.lane, self.read()
        self.lane = self.new_lane()
        if batch is None:
            return
        kind, method = self.random.choice(STEPS)
        original = getattr(kind, method)

        def dying(*arguments: Any) -> Any:
            original(*arguments)
            raise Death

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(kind, method, dying)
            try:
                lane.process(batch)
            except (Death, HeadwaterError):
                return

    def hang(self) -> None:
        lane, batch = self.lane, self.read()
        self.lane = self.new_lane()
        if batch is None:
            return
        self.hangs += 1
        lane.own(batch)
        work = lane.claim([checked(one) for one in batch.inputs])
        uploads = MultipartUploads(self.world.catalog, self.world.store)

        def wake() -> None:
            claims, completed = uploads.reconcile(uploads.open(work.claims))
            lane.mark(lane.send(batch, claims, work)[0])
            lane.settle([*completed, *uploads.complete(claims)])

        self.late.append(wake)

    def wake(self) -> None:
        if self.late:
            try:
                self.late.pop(0)()
            except HeadwaterError:
                return

    def happen(self) -> None:
        actions = [self.write, self.delete, self.answer_requests, self.wake, self.work, self.work_and_die, self.hang]
        self.random.choices(actions, weights=[4, 1, 1, 1, 4, 4, 1])[0]()

    def drain(self) -> None:
        for _ in range(200):
            while self.late:
                self.wake()
            self.answer_requests()
            if self.committed == len(self.log):
                return
            self.work()
        pytest.fail("the log does not come to rest")


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(int(os.environ.get("HISTORIES", "4"))))
def test_whatever_happens_every_large_file_ends_stored_whole(world: World, seed: int) -> None:
    history = History(world, seed)
    for _ in range(40):
        history.happen()
    history.drain()

    rows = world.query("SELECT hash, generation, state FROM objects WHERE state <> 'gone'")
    assert {state for _, _, state in rows} <= {"stored"}, "no claim is left open"
    generations = {content: generation for content, generation, _ in rows}
    for data in set(history.disk.values()):
        assert world.store.get(object_key(content_hash(data), generations[content_hash(data)])) == data
    counters = world.counters()
    assert counters.get("objects_claimed", 0) == counters.get("objects_stored", 0) == len(rows)
    keys = [
        object_key(content, generation) for content, generation in world.query("SELECT hash, generation FROM objects")
    ]
    assert sum(len(world.store.find_multiparts(key)) for key in keys) <= history.hangs
