"""``headwater trace cast:ID``: what became of one cast, across the catalog and the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from rich.text import Text

from headwater.cli import output
from headwater.cli.event import Event, line
from headwater.cli.frame import Frame
from headwater.rules.errors import BadSettings
from headwater.schemas import cast_records
from headwater.schemas.topics import CAST_EVENTS, CAST_MANIFESTS, CAST_PROGRESS, Topic

if TYPE_CHECKING:
    from headwater.connectors.catalog.casts import Cast
    from headwater.connectors.kafka.browse import Seen

PREFIX = "cast:"
"""Before the name or the epoch of a cast, where files may be meant too."""

_ONE_BY_ONE = 20
"""Hosts that came to the same state are named up to this number, and counted beyond."""
_EARLIER_MS = 60_000

Kind = TypeVar("Kind", cast_records.CastManifest, cast_records.CastProgress, cast_records.CastEvent)


def trace_cast(the: Frame, identity: str, *, as_json: bool) -> None:
    """Print one cast's way. ``identity``: ``cast:`` and a name (its newest cast) or an epoch. Raises NotFound."""
    cast = _find(the, identity.removeprefix(PREFIX))
    since = int(cast.announced_at.timestamp() * 1_000) - _EARLIER_MS
    manifests = _about(the, CAST_MANIFESTS, cast_records.CastManifest, cast.epoch, since)
    progress = _about(the, CAST_PROGRESS, cast_records.CastProgress, cast.epoch, since)
    said = _about(the, CAST_EVENTS, cast_records.CastEvent, cast.epoch, since)
    events = [
        Event(cast.announced_at.astimezone(UTC), "announced", "catalog", f"by {cast.origin}, of {cast.size:,} bytes"),
        Event(cast.changed_at.astimezone(UTC), cast.state, "catalog", cast.reason),
        *_of_manifests(manifests),
        *(_event(seen, one.state, _progress(one)) for seen, one in progress),
        *(_event(seen, one.kind, f"{one.host}: {one.reason}") for seen, one in said),
    ]
    events.sort(key=lambda event: event.at)
    if as_json:
        output.print_json({**output.plain(cast), "events": output.plain(events)})
        return
    console = output.console()
    head = Text(f"{PREFIX}{cast.epoch}", style="bold").append(f"  {cast.name}", "cyan")
    console.print(head.append(f"  {cast.file_name}, {output.size(cast.size)}", "not bold"), soft_wrap=True)
    if cast.root is not None:
        console.print(Text(f"  root {cast.root.hex()}", style="dim"), soft_wrap=True)
    for event in _summed_up(events, {place(seen) for seen, _ in progress}):
        console.print(line(event), soft_wrap=True)
    console.print(Text(f"  → {_now(cast)}"), soft_wrap=True)


def place(seen: Seen) -> str:
    return f"{seen.topic}/{seen.partition}@{seen.offset}"


def _find(the: Frame, named: str) -> Cast:
    from headwater.connectors.catalog import casts

    if not named:
        raise BadSettings("no cast is named.", advice=f"Give {PREFIX}NAME, or {PREFIX} and the number of a cast.")
    with the.catalog.transaction() as transaction:
        if named.isdecimal():
            return casts.by_epoch(transaction, int(named))
        return casts.of_name(transaction, named)[0]


def _about(the: Frame, topic: Topic, kind: type[Kind], epoch: int, since_ms: int) -> list[tuple[Seen, Kind]]:
    """The cast's records of a topic of one partition, in order."""
    from headwater.connectors.kafka.browse import Start, browse

    records = browse(the.kafka, topic.name, Start("time", since_ms))
    return [(seen, seen.record) for seen in records if isinstance(seen.record, kind) and seen.record.epoch == epoch]


def _of_manifests(records: Sequence[tuple[Seen, cast_records.CastManifest]]) -> Iterator[Event]:
    """One event a record, but one for all hashes that follow each other."""
    for kind, group in groupby(records, key=lambda one: one[1].kind):
        run = list(group)
        if kind is cast_records.ManifestKind.hashes:
            (first, begun), (_, ended) = run[0], run[-1]
            through = (ended.first_chunk or 0) + len(ended.hashes or b"") // 32
            yield _event(first, kind, f"of chunks {begun.first_chunk} to {through - 1}, in {len(run)} records")
        else:
            yield from (_event(seen, kind, one.reason) for seen, one in run)


def _progress(one: cast_records.CastProgress) -> str:
    rack = f" in rack {one.rack}" if one.rack else ""
    return f"{one.host}{rack}, {one.chunks:,} chunks after {one.seconds:.1f} s{f': {one.reason}' if one.reason else ''}"


def _event(seen: Seen, what: str, detail: str) -> Event:
    return Event(datetime.fromtimestamp(seen.timestamp_ms / 1000, UTC), what, place(seen), detail)


def _summed_up(events: Sequence[Event], hosts: set[str]) -> Iterator[Event]:
    """Where many hosts came to the same state, the first of them, and how many."""
    by_state: dict[str, list[Event]] = {}
    for event in events:
        if event.where in hosts:
            by_state.setdefault(event.what, []).append(event)
    many = {what: found for what, found in by_state.items() if len(found) > _ONE_BY_ONE}
    for event in events:
        if event.where not in hosts or event.what not in many:
            yield event
        elif event is many[event.what][0]:
            last = many[event.what][-1]
            took = output.duration((last.at - event.at).total_seconds())
            detail = f"{len(many[event.what]):,} hosts within {took}, first {event.detail}"
            yield Event(event.at, event.what, event.where, detail)


def _now(cast: Cast) -> str:
    if not cast.lives:
        why = "a newer cast replaced it" if not cast.newest else "it expired" if cast.expired else cast.reason
        return f"over: {why}."
    if cast.state == "announced":
        return f"its chunks are being hashed on {cast.origin}; peers fetch what is hashed, and install nothing yet."
    return f"whole: `headwater cast report {cast.name}` says who has it."
