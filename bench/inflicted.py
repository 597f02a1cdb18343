"""A fault that is to happen, and one that did: what the chaos of files and that of jobs draw, inflict and count."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """``seconds`` is how long it lasts, ``after`` how long all is well before it."""

    name: str
    victim: str
    seconds: float
    after: float

    def __str__(self) -> str:
        return f"{self.name} {self.victim} for {self.seconds:.1f} s"

    @property
    def kind(self) -> str:
        """One of the deck's ``KINDS``: the second member of a group counts as the first."""
        return f"{self.name} {self.victim.partition('.')[0]}".rstrip()


@dataclass(frozen=True, slots=True)
class Inflicted:
    """A fault that happened, from ``began`` to ``ended`` (seconds since 1970)."""

    fault: Fault
    began: float
    ended: float
