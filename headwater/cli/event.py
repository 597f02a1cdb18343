"""One thing that happened to what is traced, as a line for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from headwater.cli import output

_GOOD = {
    "stored", "verified", "published", "recorded", "sent", "sealed", "complete", "installed",
    "accepted", "completed", "delivered",
}  # fmt: skip
_BAD = {
    "condemned", "excepted", "dead letter", "gone",
    "aborted", "removed", "failed", "refused", "blamed", "stalled", "missing", "source_changed",
    "lease_lost", "expired", "undelivered",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """When, what, where it is written, and more about it."""

    at: datetime
    what: str
    where: str
    detail: str


def line(event: Event) -> Text:
    made = Text(f"  {output.moment(int(event.at.timestamp() * 1000))}  ", style="dim")
    style = "green" if event.what in _GOOD else "red" if event.what in _BAD else "yellow"
    made.append(f"{event.what:<12}", style=f"not dim {style}").append(event.detail, style="not dim")
    return made.append(f"  {event.where}")
