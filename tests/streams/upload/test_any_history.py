"""The law over random histories: files change, members die at any step, partitions move, and the dead write late.

After the log is drained, every path that the agent knows must be what is on disk, its content stored once and intact,
with no claim left open and counters that agree with the rows. Contents are few, so that paths share them often.
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
from headwater.schemas.records import ChangeKind, FileChange, SyncRequest
from headwater.streams.runtime.processor import Batch, Output
from headwater.streams.upload.changes import checked
from headwater.streams.upload.files_lane import FilesLane

World = Any
PARTITIONS = 3
PATHS = [f"p{number}".encode() for number in range(8)]
CONTENTS = [f"content {number}".encode() for number in range(5)]
STEPS = ("own", "record", "send", "settle", "outputs")


class Death(Exception):
    """Stands for the end of a process: the lane that met it is never used again."""


class History:
    """An agent, a log of a few partitions, and the members that own them."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.log: list[list[FileChange]] = [[] for _ in range(PARTITIONS)]
        self.committed = [0] * PARTITIONS
        self.disk: dict[bytes, bytes] = {}
        self.requests: list[SyncRequest] = []
        self.lanes = [self.new_lane() for _ in range(PARTITIONS)]
        self.assignment = 1
        self.late: list[Callable[[], object]] = []
        self.late_puts = 0
        """What members that woke up too late may have sent a second time."""

    def new_lane(self) -> FilesLane:
        return FilesLane(
            type(self.world.config)(site="here", transfers=2, files_piece_records=2),
            self.world.catalog,
            self.world.store,
        )

    # The agent

    def emit(self, record: FileChange) -> None:
        self.log[PATHS.index(record.path) % PARTITIONS].append(record)

    def write(self) -> None:
        path, data = self.random.choice(PATHS), self.random.choice(CONTENTS)
        kind = ChangeKind.modified if path in self.disk else ChangeKind.created
        self.disk[path] = data
        self.world.write(path, data)
        self.emit(self.world.change(path, kind))

    def rename(self) -> None:
        if self.disk:
            old, new = self.random.choice(sorted(self.disk)), self.random.choice(PATHS)
            if old != new:
                self.disk[new] = self.disk.pop(old)
                os.rename(self.world.root / os.fsdecode(old), self.world.root / os.fsdecode(new))
                self.emit(self.world.change(new, ChangeKind.renamed, from_path=old))

    def delete(self) -> None:
        if self.disk:
            path = self.random.choice(sorted(self.disk))
            del self.disk[path]
            os.unlink(self.world.root / os.fsdecode(path))
            self.emit(self.world.change(path, ChangeKind.deleted))

    def answer_requests(self) -> None:
        for request in self.requests:
            if request.path in self.disk:
                self.emit(self.world.change(request.path, ChangeKind.modified))
        self.requests.clear()

    # The members

    def read(self, partition: int) -> Batch | None:
        start = self.committed[partition]
        records = self.log[partition][start : start + self.random.randint(1, 4)]
        inputs = tuple(
            self.world.input("fs.changes.here", one, start + number, partition) for number, one in enumerate(records)
        )
        return Batch(inputs, self.assignment, lambda: True) if inputs else None

    def commit(self, partition: int, batch: Batch, outputs: Sequence[Output]) -> None:
        self.committed[partition] += len(batch.inputs)
        self.requests += [
            one.record for one in outputs if isinstance(one, Output) and one.topic.name == "sync.requests"
        ]

    def work(self, partition: int) -> None:
        if batch := self.read(partition):
            try:
                outputs = self.lanes[partition].process(batch)
            except Fenced:
                self.assignment += 1
            else:
                self.commit(partition, batch, outputs)

    def work_and_die(self, partition: int) -> None:
        """Die after a step, or between two PUTs; sometimes after everything, before the offsets are committed."""
        lane, batch = self.lanes[partition], self.read(partition)
        self.lanes[partition] = self.new_lane()
        if batch is None:
            return
        step = self.random.choice((*STEPS, "put", "commit"))
        puts = self.random.randint(1, 2)
        with pytest.MonkeyPatch.context() as patched:
            if step == "put":
                self._die_after(patched, ObjectStore, "put_whole", puts)
            elif step != "commit":
                self._die_after(patched, FilesLane, step, 1)
            try:
                lane.process(batch)
            except (Death, HeadwaterError):
                return

    def _die_after(self, patched: pytest.MonkeyPatch, kind: type, method: str, times: int) -> None:
        original = getattr(kind, method)
        calls = 0

        def dying(*arguments: Any) -> Any:
            nonlocal calls
            outcome = original(*arguments)
            calls += 1
            if calls >= times:
                raise Death
            return outcome

        patched.setattr(kind, method, dying)

    def hang(self, partition: int) -> None:
        """A member stops after it sent, its partition moves on, and it wakes up later and wants to settle."""
        lane, batch = self.lanes[partition], self.read(partition)
        self.lanes[partition] = self.new_lane()
        if batch is None:
            return
        lane.own(batch)
        changes = [checked(one) for one in batch.inputs]
        work = lane.record(changes)
        if self.random.random() < 0.5:
            sent, _ = lane.send(batch, work)
            self.late.append(lambda: lane.settle(sent))
        else:
            self.late_puts += len(work.claims)
            self.late.append(lambda: lane.settle(lane.send(batch, work)[0]))

    def wake(self) -> None:
        if self.late:
            try:
                self.late.pop(0)()
            except Fenced:
                return

    def happen(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        action = self.random.choices(
            [self.write, self.rename, self.delete, self.answer_requests, self.wake], weights=[5, 3, 1, 1, 1]
        )[0]
        member = self.random.choices([self.work, self.work_and_die, self.hang], weights=[5, 3, 1])[0]
        if self.random.random() < 0.55:
            action()
        else:
            member(partition)

    def drain(self) -> None:
        for _ in range(200):
            while self.late:
                self.wake()
            self.answer_requests()
            if all(self.committed[number] == len(self.log[number]) for number in range(PARTITIONS)):
                return
            for partition in range(PARTITIONS):
                self.work(partition)
        pytest.fail("the log does not come to rest")


@pytest.mark.fault
@pytest.mark.parametrize("seed", range(int(os.environ.get("HISTORIES", "6"))))
def test_whatever_happens_every_path_ends_as_it_is_on_disk(world: World, seed: int) -> None:
    history = History(world, seed)
    for _ in range(70):
        history.happen()
    history.drain()

    heads = world.query(
        "SELECT path, v.hash FROM paths JOIN file_versions v USING (source, path, epoch, seq) WHERE kind <> 'deleted'"
    )
    assert dict(heads) == {path: content_hash(data) for path, data in history.disk.items()}
    rows = world.query("SELECT hash, generation, state FROM objects WHERE state <> 'gone'")
    objects = {row[0]: row[1:] for row in rows}
    assert {state for _, state in objects.values()} <= {"stored"}, "no claim is left open"
    for data in history.disk.values():
        generation, _ = objects[content_hash(data)]
        assert world.store.get(object_key(content_hash(data), generation)) == data
    counters = world.counters()
    assert counters.get("files", 0) == len(history.disk)
    assert counters.get("bytes", 0) == sum(len(data) for data in history.disk.values())
    assert counters.get("objects_claimed", 0) == counters.get("objects_stored", 0) == len(objects)
    puts = [path for _, path in world.passage.sent("PUT .*objects/")]
    assert len(puts) <= len(set(puts)) + history.late_puts
