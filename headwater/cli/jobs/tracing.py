"""``headwater trace JOB``: what became of one generation job, across the catalog and the log."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from headwater.cli import output
from headwater.cli.event import Event, line
from headwater.cli.frame import Frame
from headwater.rules.errors import NotFound
from headwater.rules.jobs.states import JobState
from headwater.schemas import job_records
from headwater.schemas.topics import JOBS_EVENTS, JOBS_GRANTS, JOBS_REQUESTED, Topic

if TYPE_CHECKING:
    from headwater.connectors.jobs.deliveries import Shown
    from headwater.connectors.jobs.reading import Attempt
    from headwater.connectors.kafka.browse import Seen
    from headwater.rules.jobs.video import JobView
    from headwater.schemas.records import Record

_EARLIER_MS = 60_000
_SENT = {job_records.GrantKind.granted: "grant sent", job_records.GrantKind.cancel: "cancel sent"}


def is_meant(identity: str) -> bool:
    """Is a job meant, rather than a file?"""
    return identity.startswith("video_")


def trace_job(the: Frame, identity: str, *, as_json: bool) -> None:
    """Print the way of a job, of any tenant. Raises NotFound."""
    job, attempts, deliveries = _known(the, identity)
    events = [*_of_catalog(job, attempts, deliveries), *_of_log(the, job, attempts)]
    events.sort(key=lambda event: event.at)
    if as_json:
        document = {"attempts": output.plain(attempts), "deliveries": output.plain(deliveries)}
        output.print_json({**output.plain(job), **document, "events": output.plain(events)})
        return
    console = output.console()
    head = Text(job.job, style="bold").append(f"  {job.state}", "cyan")
    head.append(f"  of {job.tenant}, in pool {job.pool}, version {job.version}, epoch {job.epoch}", "not bold")
    console.print(head, soft_wrap=True)
    for event in events:
        console.print(line(event), soft_wrap=True)
    console.print(Text(f"  → {_now(job)}"), soft_wrap=True)


def _known(the: Frame, identity: str) -> tuple[JobView, list[Attempt], list[Shown]]:
    from headwater.connectors.jobs import deliveries, reading

    with the.jobs.quiet() as transaction:
        found = reading.present(transaction, [identity])
        if not found:
            raise NotFound(
                f"the catalog knows no job {identity}.",
                asked=f"{identity} was to be traced.",
                advice="`headwater jobs` shows a tenant's jobs.",
            )
        [job] = found
        tried = reading.attempts(transaction, job.tenant, identity)
        return job, tried, deliveries.of_job(transaction, job.tenant, identity)


def _of_catalog(job: JobView, attempts: list[Attempt], deliveries: list[Shown]) -> Iterator[Event]:
    yield _event(job.created_at, "accepted", f"{job.model}, about {job.cost_seconds:g} GPU seconds")
    for one in attempts:
        what = f"attempt {one.epoch}"
        yield _event(one.granted_at, "granted", f"{what} to {one.worker}")
        if one.claimed_at is not None:
            resumed = "" if one.resumed_step is None else f", resumes at step {one.resumed_step}"
            yield _event(one.claimed_at, "claimed", f"{what} by {one.worker}{resumed}")
        if one.ended_at is not None:
            steps = f", at step {one.step} of {one.steps}" if one.steps and one.outcome != "completed" else ""
            said = ": ".join(part for part in (one.code, one.message) if part)
            yield _event(one.ended_at, one.outcome or "ended", f"{what}{steps}{f': {said}' if said else ''}")
    if job.completed_at is not None:
        yield _event(job.completed_at, str(job.state), job.error_message or f"with version {job.version}")
    if job.deleted_at is not None:
        yield _event(job.deleted_at, "deleted", "by its owner")
    for delivery in deliveries:
        yield _event(*_delivery(delivery))


def _delivery(one: Shown) -> tuple[datetime, str, str]:
    said = f"{one.type} {one.delivery} to {one.url}, attempt {one.attempts}"
    if one.state == "delivered":
        return one.ended_at or one.created_at, "delivered", said
    trouble = f": {one.last_error}" if one.last_error else ""
    if one.state == "failed":
        return one.ended_at or one.created_at, "undelivered", f"{said}{trouble}"
    return one.due_at, "due", f"{said}{trouble}"


def _of_log(the: Frame, job: JobView, attempts: list[Attempt]) -> Iterator[Event]:
    since = int(job.created_at.timestamp() * 1_000) - _EARLIER_MS
    for pool in sorted({job.pool, *(one.pool for one in attempts)}):
        for seen in _about(the, JOBS_REQUESTED, job.job, pool, since):
            if isinstance(record := seen.record, job_records.JobRequested):
                yield _seen(seen, "requested", f"version {record.version}")
        for seen in _about(the, JOBS_EVENTS, job.job, pool, since):
            record = seen.record
            if isinstance(record, job_records.JobEvent) and record.kind is job_records.JobEventKind.state:
                yield _seen(seen, "event", f"{record.state}, version {record.version}: {record.reason}")
    for worker in sorted({one.worker for one in attempts}):
        for seen in _about(the, JOBS_GRANTS, worker, worker, since):
            record = seen.record
            if isinstance(record, job_records.JobGrant) and record.job == job.job:
                yield _seen(seen, _SENT.get(record.kind, "sent"), f"attempt {record.epoch} to {record.worker}")


def _about(the: Frame, topic: Topic, key: str, placed_by: str, since_ms: int) -> tuple[Seen, ...]:
    from headwater.connectors.kafka.trace import about

    def every(_: Record) -> bool:
        return True

    return about(the.kafka, topic, key.encode(), since_ms, None, every, placed_by=placed_by.encode()).records


def _seen(seen: Seen, what: str, detail: str) -> Event:
    at = datetime.fromtimestamp(seen.timestamp_ms / 1000, UTC)
    return Event(at, what, f"{seen.topic}/{seen.partition}@{seen.offset}", detail)


def _event(at: datetime, what: str, detail: str) -> Event:
    return Event(at.astimezone(UTC), what, "catalog", detail)


def _now(job: JobView) -> str:
    match job.state:
        case JobState.queued:
            return f"waits for a worker of pool {job.pool}: `headwater pools`."
        case JobState.granted:
            return f"attempt {job.epoch} is granted, and its worker has not claimed it yet."
        case JobState.running:
            return f"attempt {job.epoch} runs, at step {job.step} of {job.steps}."
        case JobState.cancelling:
            return "its worker was told to stop, and has not proved it yet."
        case JobState.completed:
            return f"attempt {job.result_epoch} made {(job.result or {}).get('key', 'its result')}."
        case _:
            return f"over: {job.error_message or job.reason}."
