"""What a stream processor is: a named consumer group, the topics it reads and writes, and one step.

The runtime (member.py) reads batches, runs the step outside any transaction, and commits outputs and offsets
together. A processor is a class with the members of ``Processor``; its docstring says: reads, writes, effect, and why
the effect is safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.rules.errors import HeadwaterError
from headwater.schemas.records import Record
from headwater.schemas.topics import Topic


@dataclass(frozen=True, slots=True)
class Received:
    """A message and where it was read. ``topic`` is the catalogue's name, without the cluster prefix."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Input(Received):
    """A message that decoded to a record."""

    record: Record


@dataclass(frozen=True, slots=True)
class Output:
    """One record to write; its partition follows from its key. ``cause`` hands on its trace, where it has one."""

    topic: Topic
    record: Record
    cause: Input | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are processed and committed together, in the order of each partition.

    ``assignment`` changes with every rebalance: a processor that holds claims by partition takes a new epoch for each
    of its partitions when it sees a new value. ``is_current`` turns false once the partitions were revoked: a slow step
    may stop early then, its result is discarded anyway. ``held``: all partitions of the assignment, by the catalogue's
    topic.
    """

    inputs: tuple[Input, ...]
    assignment: int
    is_current: Callable[[], bool]
    held: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A batch ends at the first of these that it reaches."""

    records: int = 500
    value_bytes: int = 8 * 1024 * 1024
    wait_seconds: float = 0.05
    """A lone record waits this long for company: the latency that batching costs when traffic is low."""
    idle_seconds: float | None = None
    """With nothing to read, the step is called with an empty batch this often: for what waits for something else."""


class Processor(Protocol):
    """One consumer group's work. Methods run in the member's one step thread, never two at once.

    ``process`` may block for as long as its work takes (the member keeps its place in the group meanwhile). It must be
    safe to repeat with the same inputs at any time, also by another member after this one was cut off: outputs derive
    from the record and the state that it finds, never from whether this call changed something. It is also called for
    the next batch while the outputs of this one are being committed. It raises

    - Transient or Refused to be called again later with the same batch: the group waits and says why;
    - Fenced when a newer owner was seen: the batch is dropped and the member joins anew;
    - BadSettings or TopicMismatch to end the process;
    - any other Permanent error for a record that can never succeed: the member then calls it with one record at a time
      to find which, and buries that one. An error that is none of ours gets some tries before that.

    ``bury`` is told of a record before it goes to dead.letters, so that the catalog can name what it held up. It may
    return outputs, and must be safe to repeat; until it succeeds, the group waits. A record that did not decode is
    buried without it.
    """

    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> tuple[Topic, ...]: ...

    @property
    def writes(self) -> tuple[Topic, ...]: ...

    @property
    def limits(self) -> BatchLimits: ...

    def process(self, batch: Batch) -> Sequence[Output]: ...

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]: ...
