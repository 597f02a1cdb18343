"""What the folder was: of each path every state that the workload gave it, in order."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Path = bytes
"""Below the root of the source, as the kernel has it."""


@dataclass(frozen=True, slots=True)
class State:
    """A regular file by the BLAKE3 of its bytes, or a symbolic link by its target. Not there: None."""

    hash: bytes | None = None
    target: bytes | None = None

    def __str__(self) -> str:
        return f"a link to {self.target!r}" if self.hash is None else self.hash.hex()[:16]


@dataclass(slots=True)
class Journal:
    """``states`` begin with None: no path was there before the first one. Each that follows gets a line in the file
    ``log``: with its time, it tells what the processes saw or missed."""

    states: dict[Path, list[State | None]] = field(default_factory=lambda: defaultdict(lambda: [None]))
    log: os.PathLike[str] | None = None

    def note(self, path: Path, state: State | None) -> None:
        history = self.states[path]
        if history[-1] != state:
            history.append(state)
            if self.log is not None:
                with open(self.log, "a", encoding="utf-8") as log:
                    print(f"{time.time():.3f}", state or "gone", path, file=log)

    def now(self) -> dict[Path, State]:
        """What is there now."""
        return {path: history[-1] for path, history in self.states.items() if history[-1] is not None}


def first_out_of_order(history: Sequence[State | None], seen: Sequence[State | None]) -> int | None:
    """The place in ``seen`` of the first state that the path cannot have had after the states before it; else None.

    A state may come back, so a later one of the same content counts as well; taking the earliest place that fits
    leaves most room for what follows, hence no other choice succeeds where this one fails.
    """
    place = 0
    for number, state in enumerate(seen):
        try:
            place = history.index(state, place)
        except ValueError:
            return number
    return None


def were_never(histories: Mapping[Path, Sequence[State | None]], path: Path, state: State) -> bool:
    """Whether the path never had this state."""
    return state not in histories.get(path, ())
