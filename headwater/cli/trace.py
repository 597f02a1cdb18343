"""``headwater trace``: what became of one file version, one cast or one job, across the log and the catalog."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.cast import tracing
from headwater.cli.event import Event, line
from headwater.cli.frame import AsJson, Frame
from headwater.cli.jobs.tracing import is_meant, trace_job
from headwater.rules.errors import BadSettings, NotFound
from headwater.rules.identity import HASH_BYTES, change_key, display

if TYPE_CHECKING:
    from headwater.connectors.catalog.client import Transaction
    from headwater.connectors.catalog.trace import InVersions, TracedObject, TracedState
    from headwater.connectors.kafka.browse import Seen

_CLOCK = re.compile(r"(\d+)\.(\d+)")
_HASH = re.compile(r"[0-9a-f]{6,64}")
_MOST_STATES = 100
_EARLIER_MS = 3_600_000
"""How long before it was recorded a change is looked for in the log: uploaders that were away for longer are rare."""
_LATER_MS = 60_000


def trace(
    context: typer.Context,
    identity: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="SOURCE/PATH, a content hash (or its first 6 digits), EPOCH.SEQ; cast:NAME, cast:NUMBER; a job's id.",
        ),
    ],
    every: Annotated[bool, typer.Option("--all", help="All states of the path, not only the newest.")] = False,
    as_json: AsJson = False,
) -> None:
    """Follow a file version, a cast or a job across the log.

    And the catalog. Sent by the agent, recorded, stored, verified, in which versions; its exceptions, dead letters and
    requests. Of a cast: announced, hashed, sealed, who has it, who was blamed. Of a job (video_…): accepted, granted,
    claimed, how each attempt ended, who was told. What the log no longer holds is told by the catalog alone.
    """
    the = frame.of(context)
    if identity.startswith(tracing.PREFIX):
        tracing.trace_cast(the, identity, as_json=as_json)
        return
    if is_meant(identity):
        trace_job(the, identity, as_json=as_json)
        return
    with the.catalog.transaction() as transaction:
        states = _states(transaction, identity, most=_MOST_STATES if every else 2)
        if not states:
            raise _unknown(identity)
        is_path = "/" in identity
        older = len(states) - 1 if is_path and not every else 0
        chosen = states[: len(states) - older]
        catalog = [_Catalog.of(transaction, state) for state in chosen]
    traced = [(known, sorted(_events(the, known), key=lambda event: event.at)) for known in catalog]
    if as_json:
        output.print_json([_document(known, events) for known, events in traced])
        return
    console = output.console()
    for known, events in traced:
        _print(console, known, events)
    if older:
        console.print("This path has earlier states: --all shows them.", style="dim")


@dataclass(frozen=True, slots=True)
class _Catalog:
    """What the catalog says of a state."""

    state: TracedState
    objects: list[TracedObject]
    versions: InVersions | None
    exception: tuple[datetime, str, bool] | None

    @classmethod
    def of(cls, transaction: Transaction, state: TracedState) -> _Catalog:
        from headwater.connectors.catalog import trace as catalog

        excepted = catalog.exception_of(transaction, state.source, state.path)
        concerns = excepted is not None and (excepted.epoch, excepted.seq) >= (state.epoch, state.seq) and state.newest
        return cls(
            state,
            catalog.objects_of(transaction, state.hash) if state.hash is not None else [],
            catalog.versions_of(transaction, state),
            (excepted.since, excepted.reason, excepted.active) if excepted is not None and concerns else None,
        )


def _states(transaction: Transaction, identity: str, most: int) -> list[TracedState]:
    from headwater.connectors.catalog import trace as catalog

    if clock := _CLOCK.fullmatch(identity):
        return catalog.states_at_clock(transaction, int(clock[1]), int(clock[2]), _MOST_STATES)
    if _HASH.fullmatch(identity):
        low, high = (bytes.fromhex(identity.ljust(2 * HASH_BYTES, digit)) for digit in "0f")
        found = catalog.contents_between(transaction, low, high, limit=3)
        if len(found) > 1:
            raise BadSettings(
                f"several contents begin with {identity}: {', '.join(one.hex()[:16] + '…' for one in found)}",
                asked="A content was to be traced.",
                advice="Give more of its digits.",
            )
        return catalog.states_of_content(transaction, found[0], _MOST_STATES) if found else []
    source, _, path = identity.partition("/")
    for spelling in _spellings(path):
        if states := catalog.states_of_path(transaction, source, spelling, most):
            return states
    return []


def _spellings(path: str) -> Iterator[bytes]:
    """The path as it was typed; then as our listings show it, where bytes that are no text are escapes."""
    yield os.fsencode(path)
    if "\\" in path:
        yield re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), os.fsencode(path))


def _unknown(identity: str) -> NotFound:
    return NotFound(
        f"the catalog knows no state of {identity}.",
        asked=f"{identity} was to be traced.",
        advice="Give SOURCE/PATH as `headwater dataset ls` shows it, a content hash, or EPOCH.SEQ. A file that upload "
        "has not recorded yet is with its agent or in the log: `headwater why agent-SOURCE`, `headwater lag`.",
    )


def _events(the: Frame, known: _Catalog) -> Iterator[Event]:
    state = known.state
    yield Event(state.recorded_at.astimezone(UTC), "recorded", "catalog", f"by upload-files.{state.site}")
    yield from _in_the_log(the, known)
    for one in known.objects:
        if one.state in ("uploading", "gone", "condemned"):
            parts = f", {one.parts_sent} of {one.parts} parts are sent" if one.parts else ""
            what = "claimed" if one.state == "uploading" else one.state
            where = f"for {one.claim_topic}/{one.claim_partition}"
            yield Event(one.changed_at.astimezone(UTC), what, "catalog", f"generation {one.generation} {where}{parts}")
    if known.exception is not None:
        since, reason, active = known.exception
        yield Event(since.astimezone(UTC), "excepted" if active else "cleared", "catalog", reason)
    if (versions := known.versions) is not None:
        held = f"{versions.change} in version {versions.first} of {versions.dataset}"
        if versions.change != "removed":
            held += ", held since" if versions.last is None else f", held up to version {versions.last}"
        at = versions.published_at.astimezone(UTC) if versions.published_at else datetime.now(UTC)
        yield Event(at, "published" if versions.published_at else "being committed", "lakeFS", held)


def _in_the_log(the: Frame, known: _Catalog) -> Iterator[Event]:
    from headwater.connectors.kafka.trace import about
    from headwater.schemas.records import FileChange, ObjectStored, ObjectVerified, SyncRequest
    from headwater.schemas.topics import SYNC_OBJECTS, SYNC_OBJECTS_LARGE, SYNC_REQUESTS, SYNC_VERIFIED, fs_changes

    state, kafka = known.state, the.kafka
    recorded = int(state.recorded_at.timestamp() * 1000)
    path = state.path if state.renamed_to is None else state.renamed_to
    clock = (state.epoch, state.seq)
    for seen in about(
        kafka, fs_changes(state.site), change_key(state.source, path), recorded - _EARLIER_MS, recorded + _LATER_MS,
        lambda record: isinstance(record, FileChange) and (record.epoch, record.seq) == clock,
    ).records:  # fmt: skip
        yield _event("sent", seen, f"by {_producer(seen)}")
    if state.hash is not None:
        topic = SYNC_OBJECTS_LARGE if any(one.parts for one in known.objects) else SYNC_OBJECTS
        first = recorded - _LATER_MS
        last = max([recorded, *(int(one.changed_at.timestamp() * 1000) for one in known.objects)]) + _LATER_MS
        for seen in about(kafka, topic, state.hash, first, last, lambda one: isinstance(one, ObjectStored)).records:
            yield _event("stored", seen, f"generation {seen.record.generation}")  # type: ignore[union-attr]
        for seen in about(kafka, SYNC_VERIFIED, state.hash, first, last, lambda _: True).records:
            record = seen.record
            if isinstance(record, ObjectVerified):
                detail = f"generation {record.generation}" + (f": {record.detail}" if record.detail else "")
                yield _event(record.verdict, seen, detail)
    for seen in about(
        kafka, SYNC_REQUESTS, state.source.encode(), recorded - _LATER_MS, None,
        lambda one: isinstance(one, SyncRequest) and one.path == path and (one.epoch, one.seq) == clock,
    ).records:  # fmt: skip
        record = seen.record
        if isinstance(record, SyncRequest):
            yield _event("requested", seen, f"{record.reason}" + (f": {record.detail}" if record.detail else ""))
    yield from _dead_letters(the, known)


def _dead_letters(the: Frame, known: _Catalog) -> Iterator[Event]:
    from headwater.connectors.kafka.dead_letters import letters

    keys = {change_key(known.state.source, known.state.path), known.state.hash} - {None}
    for letter in letters(the.kafka):
        if letter.record.original_key in keys:
            at = datetime.fromtimestamp(letter.timestamp_ms / 1000, UTC)
            waits = "waits" if letter.open else "redriven"
            said = f"{letter.id} by {letter.record.group}, {waits}: {letter.record.error}: {letter.record.message}"
            yield Event(at, "dead letter", f"dead.letters/{letter.partition}@{letter.offset}", said)


def _event(what: str, seen: Seen, detail: str) -> Event:
    at = datetime.fromtimestamp(seen.timestamp_ms / 1000, UTC)
    return Event(at, what, f"{seen.topic}/{seen.partition}@{seen.offset}", detail)


def _producer(seen: Seen) -> str:
    """The host of the process that wrote the record."""
    from headwater.connectors.kafka.headers import PRODUCER, header

    written = (header(seen.headers, PRODUCER) or b"").decode(errors="replace").split(" ")
    return f"the agent on {written[1]}" if len(written) > 1 else "its agent"


def _document(known: _Catalog, events: list[Event]) -> dict[str, Any]:
    return {
        **output.plain(known.state),
        "display": display(known.state.path),
        "objects": output.plain(known.objects),
        "versions": output.plain(known.versions),
        "events": output.plain(events),
    }


def _print(console: Console, known: _Catalog, events: list[Event]) -> None:
    state = known.state
    head = Text(f"{state.source}/{display(state.path)}", style="bold").append(f"  {state.epoch}.{state.seq}", "cyan")
    head.append(f"  {state.kind}{'' if state.newest else ' (not the newest state)'}", style="not bold")
    console.print(head, soft_wrap=True)
    for name, other in (("from", state.from_path), ("to", state.renamed_to)):
        if other is not None:
            console.print(Text(f"  renamed {name} {state.source}/{display(other)}"), soft_wrap=True)
    if state.hash is not None:
        console.print(Text(f"  {state.hash.hex()}  {output.size(state.size)}", style="dim"), soft_wrap=True)
    if state.guarantee == "weak":
        console.print(Text("  weak guarantee: nothing proved that nobody wrote while it was read"), soft_wrap=True)
    for event in events:
        console.print(line(event), soft_wrap=True)
    console.print(Text(f"  → {_now(known)}"), soft_wrap=True)
    console.print()


def _now(known: _Catalog) -> str:
    """Where the state is on its way, and what it waits for."""
    if known.versions is not None and known.versions.published_at is not None:
        return f"in version {known.versions.first}."
    if known.state.hash is None:
        return f"needs no bytes; waits for the next version of {known.state.dataset}."
    states = {one.state for one in known.objects}
    if "verified" in states:
        return f"verified; waits for the next version of {known.state.dataset}."
    if "stored" in states:
        return "stored; waits for verification: `headwater why verify-objects`."
    if "uploading" in states:
        return f"on its way to S3: `headwater why upload-files.{known.state.site}`."
    return "its bytes are nowhere: the agent was asked to send the file again, or a newer state took its place."
