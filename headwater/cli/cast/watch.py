"""``headwater cast watch``: a cast while it runs, rack by rack; a finished one as it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.cast.report import Cast, Mtu, Nic, Oversubscription, heading, sums
from headwater.cli.frame import AsJson

if TYPE_CHECKING:
    from headwater.cli.cast.outcome import Floor, Outcome
    from headwater.schemas.cast_history import CastHistory
    from headwater.schemas.cast_records import CastEvent

_BAR = 32
_EVENTS_SHOWN = 8
_NAMES_SHOWN = 6
_QUIET_KINDS = ("hedged", "unknown")
"""Of these there are many in a cast that goes well."""
_OLD_US = 30_000_000


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack as the gossip saw it last; without its word, as the steps of its hosts tell. Counts are of chunks."""

    rack: str
    hosts: int
    complete: int
    installed: int
    least: int
    median: int
    most: int
    bytes_per_second: int
    slow: tuple[str, ...]
    silent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Glance:
    """All that is shown. ``eta_seconds``: until the median hosts have the file, at the pace so far."""

    history: CastHistory
    outcome: Outcome
    floor: Floor | None
    racks: tuple[Rack, ...]
    eta_seconds: float | None

    @property
    def bytes_per_second(self) -> int:
        return sum(rack.bytes_per_second for rack in self.racks)


def watch(
    context: typer.Context,
    cast: Cast,
    nic: Nic = None,
    oversubscription: Oversubscription = 1.0,
    mtu: Mtu = None,
    every: Annotated[float, typer.Option(min=0.2, metavar="SECONDS", help="Between two looks.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Show how a cast goes, rack by rack, until it ends.

    With slow and silent hosts, stalls and blames with the reason. A rack's bar is full up to what its last host has,
    lighter up to the median, and lightest up to the first. Ends with the exit code of `headwater cast report`. With
    --json, one object a look.
    """
    from headwater.connectors.kafka.cast_log import CastLog

    def look() -> Glance:
        log.catch_up()
        return glance_at(log.history, nic, oversubscription, mtu)

    with closing(CastLog(frame.of(context).kafka, cast)) as log:
        last = _follow_json(look, every) if as_json else _follow_live(look, every)
    if last.outcome.status.exit_code:
        raise typer.Exit(last.outcome.status.exit_code)


def _follow_json(look: Callable[[], Glance], every: float) -> Glance:
    while True:
        glance = look()
        output.print_json(_document(glance), lines=True)
        if glance.outcome.status != "running":
            return glance
        time.sleep(every)


def _follow_live(look: Callable[[], Glance], every: float) -> Glance:
    glance = look()
    with Live(shown(glance), console=output.console(), auto_refresh=False) as live:
        while glance.outcome.status == "running":
            time.sleep(every)
            glance = look()
            live.update(shown(glance), refresh=True)
    return glance


def glance_at(history: CastHistory, nic: float | None, oversubscription: float, mtu: int | None) -> Glance:
    from headwater.cli.cast.outcome import floor_of, outcome

    now_us = time.time_ns() // 1_000
    found = outcome(history, now_us)
    racks = tuple(racks_of(history, found, now_us))
    floor = None if nic is None else floor_of(history, found, nic, oversubscription, mtu)
    return Glance(history, found, floor, racks, _eta(found.seconds, racks, history.manifest.chunks.count))


def racks_of(history: CastHistory, found: Outcome, now_us: int) -> Iterable[Rack]:
    """Each rack of the targets, in the order of the names."""
    for rack in sorted({target.rack for target in found.targets} | history.racks.keys()):
        targets = [target for target in found.targets if target.rack == rack]
        installed = sum(target.state == "installed" for target in targets)
        said = history.racks.get(rack)
        if said is not None and said.hosts and installed < len(targets):
            fresh = now_us - said.at_us < _OLD_US
            rate = said.bytes_per_second if fresh else 0
            yield Rack(
                rack, len(targets), said.complete, max(said.installed, installed), said.least, said.median, said.most,
                rate, said.slow, said.silent,
            )  # fmt: skip
            continue
        counts = sorted(target.chunks for target in targets) or [0]
        complete = sum(target.state in ("installed", "complete") for target in targets)
        middle = counts[(len(counts) - 1) // 2]
        yield Rack(rack, len(targets), complete, installed, counts[0], middle, counts[-1], 0, (), ())


def _eta(seconds: float, racks: Iterable[Rack], count: int) -> float | None:
    """Until the median host of the slowest rack has all ``count`` chunks, at its pace since the announcement."""
    left = [seconds * (count - rack.median) / rack.median for rack in racks if rack.median]
    return max(left, default=None)


def _document(glance: Glance) -> dict[str, Any]:
    manifest, found = glance.history.manifest, glance.outcome
    return {
        "name": manifest.name,
        "epoch": manifest.epoch,
        "status": found.status,
        "reason": found.reason,
        "seconds": found.seconds,
        "hashed": manifest.hashed,
        "chunks": manifest.chunks.count,
        "chunk_bytes": manifest.chunks.chunk_bytes,
        "targets": len(found.targets),
        "installed": found.installed,
        "bytes_per_second": glance.bytes_per_second,
        "eta_seconds": glance.eta_seconds,
        "floor": glance.floor,
        "racks": glance.racks,
        "events": [event for event in glance.history.events if event.kind not in _QUIET_KINDS][-_EVENTS_SHOWN:],
    }


def shown(glance: Glance) -> Group:
    history, found = glance.history, glance.outcome
    lines = [_pace(glance)] if found.status == "running" else []
    lines += sums(found, glance.floor, history.manifest.chunks.size)
    events = [event for event in history.events if event.kind not in _QUIET_KINDS]
    told = [_event(event) for event in events[-_EVENTS_SHOWN:]]
    return Group(heading(history, found), Text(), _racks(glance), Text(), *lines, *_slowest(glance), *told)


def _racks(glance: Glance) -> Table:
    count = glance.history.manifest.chunks.count
    rows = [
        (
            rack.rack or "(none)",
            f"{rack.installed:,}/{rack.hosts:,}",
            _bar(rack, count),
            f"{rack.median / count:.0%}" if count else "",
            f"{rack.bytes_per_second / 1e9:,.2f} GB/s" if rack.bytes_per_second else "",
            _remarks(rack),
        )
        for rack in glance.racks
    ]
    return output.table(("rack", "installed", "chunks", "", "rate", " "), rows, right=("installed", "", "rate"))


def _bar(rack: Rack, count: int) -> Text:
    least, median, most = (
        round(_BAR * have / count) if count else _BAR for have in (rack.least, rack.median, rack.most)
    )
    bar = Text("█" * least, style="green").append("▓" * (median - least), style="green")
    return bar.append("▒" * (most - median), style="green").append("░" * (_BAR - most), style="dim")


def _remarks(rack: Rack) -> Text:
    said = Text()
    for word, hosts, style in (("slow", rack.slow, "yellow"), ("silent", rack.silent, "bold red")):
        if hosts:
            more = f" and {len(hosts) - _NAMES_SHOWN} more" if len(hosts) > _NAMES_SHOWN else ""
            said.append(f"{word}: {', '.join(hosts[:_NAMES_SHOWN])}{more}  ", style=style)
    return said


def _pace(glance: Glance) -> Text:
    receiving = sum(rack.hosts - rack.complete for rack in glance.racks)
    rate = glance.bytes_per_second
    said = Text(f"{rate / 1e9:,.2f} GB/s in all")
    if receiving and rate:
        said.append(f", {rate / receiving / 1e9:,.3f} GB/s a host")
        if glance.floor is not None:
            said.append(f" ({rate / receiving / glance.floor.nic:.0%} of its link)")
    if glance.eta_seconds is not None:
        said.append(f"; about {output.duration(glance.eta_seconds)} more")
    return said


def _slowest(glance: Glance) -> list[Text]:
    """Of those that have it, who took longest."""
    done = [target for target in glance.outcome.targets if target.state == "installed" and target.seconds is not None]
    last = sorted(done, key=lambda target: -(target.seconds or 0.0))[:3]
    if len(done) < 2:
        return []
    named = ", ".join(f"{target.host} {target.seconds:,.1f} s" for target in last)
    return [Text(f"slowest so far: {named}", style="dim")]


def _event(event: CastEvent) -> Text:
    about = f" {event.about_host}" if event.about_host else ""
    style = "bold red" if event.kind == "blamed" else "yellow"
    return (
        Text(f"{output.moment(event.at_us // 1_000)[11:19]} ")
        .append(f"{event.kind}{about}", style=style)
        .append(f", says {event.host}: {event.reason}")
    )
