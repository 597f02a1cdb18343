"""What a stream processor is: a named consumer group, the topics it reads and writes, and one step.

The runtime (member.py) reads batches, runs the step outside any transaction, and commits outputs and offsets
together. A processor is a class with the members of ``Processor``; its docstring says: reads, writes, effect, and why
the effect is safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Message

from headwater.rules.errors import HeadwaterError
from headwater.schemas.codec import decode
from headwater.schemas.records import Record
from headwater.schemas.topics import Topic


class Input:
    """A message as it was read. ``topic`` is the catalogue's name, without the cluster prefix.

    Nothing of it is copied or decoded before somebody asks: a step that only passes records on does not pay for it.
    """

    __slots__ = ("_message", "_record", "topic")

    def __init__(self, topic: str, message: Message) -> None:
        self.topic = topic
        # The client's types allow None and str where a consumed message has neither.
        self._message: Any = message
        self._record: Record | None = None

    @property
    def record(self) -> Record:
        """What the value says; decoded once. Raises BadRecord."""
        if self._record is None:
            self._record = decode(self.value)
        return self._record

    @property
    def partition(self) -> int:
        return self._message.partition()  # type: ignore[no-any-return]

    @property
    def offset(self) -> int:
        return self._message.offset()  # type: ignore[no-any-return]

    @property
    def key(self) -> bytes | None:
        return self._message.key()  # type: ignore[no-any-return]

    @property
    def value(self) -> bytes | None:
        return self._message.value()  # type: ignore[no-any-return]

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        return self._message.headers() or []

    def as_it_came(self) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """Value, key and headers."""
        message = self._message
        return message.value(), message.key(), message.headers() or []

    def __repr__(self) -> str:
        return f"Input({self.topic}/{self.partition}/{self.offset})"


class Output(NamedTuple):
    """One record to write; its partition follows from its key. ``cause`` hands on its trace, where it has one.

    An input goes on as it came: its key, its bytes and its headers.
    """

    topic: Topic
    record: Record | Input
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
    return outputs, and must be safe to repeat; until it succeeds, the group waits. The ``record`` of one that does not
    decode raises BadRecord here too: only its key may say what it was about.
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
