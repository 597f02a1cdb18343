"""``headwater why``: what a group, an agent or a committer is doing and what holds it up, in a sentence."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli import frame, output, why_jobs
from headwater.cli.frame import AsJson, Frame
from headwater.cli.run import run_name
from headwater.rules.errors import NotFound, Unavailable
from headwater.rules.identity import display

if TYPE_CHECKING:
    from headwater.cli.explain import Explanation, LocalProcess
    from headwater.cli.verdicts import JudgedGroup
    from headwater.connectors.catalog.deferred import PutOff
    from headwater.connectors.kafka.browse import Seen

_EXCEPTIONS_NAMED = 5
_PAUSE_SECONDS = 2.0
_STYLES = {"running": "green", "paused": "green", "stuck": "bold red", "halted": "bold red", "silent": "bold red"}


def why(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A group, agent-SOURCE, commit-DATASET; api, outbox, sweep, webhooks.")
    ],
    as_json: AsJson = False,
) -> None:
    """Say what a group is doing, or what holds it up.

    Running; paused by which member and since when; waiting for which server; or stuck at which record. From what its
    members on this host say of themselves, what Kafka says of the group, and the record that it would read next.
    """
    the = frame.of(context)
    details: dict[str, Any] = {}
    if name.startswith("agent-"):
        said = _agent(the, name)
    elif name == "commit" or name.startswith("commit-"):
        said = _committer(the, name if name != "commit" else f"commit-{the.settings.dataset}")
    elif name in why_jobs.PARTS:
        said = why_jobs.explained(the, name, local_processes(the.settings.state_folder, name))
    else:
        said, details = _group(the, name)
    if as_json:
        document = {"name": said.subject, "state": said.state, "sentence": said.sentence, "next": said.advice or None}
        output.print_json(document | details)
        return
    console = output.console()
    state = Text(said.state, style=_STYLES.get(said.state, "yellow"))
    output.say(console, Text(f"{said.subject} is ", style="").append(state).append(f": {said.why.rstrip('.')}."))
    if said.advice:
        output.say(console, Text(said.advice, style="cyan"))


def _group(the: Frame, name: str) -> tuple[Explanation, dict[str, Any]]:
    from headwater.cli import explain
    from headwater.cli.verdicts import LagWindow

    run = run_name(name)
    group = f"{run}.{the.settings.site}" if name in ("upload-files", "upload-parts") else name
    processes, now = local_processes(the.settings.state_folder, run), time.time()
    try:
        judged = next(iter(LagWindow(the.kafka, {group}, _PAUSE_SECONDS).measure()), None)
        if judged is None:
            raise _unknown(the, name)
        record = _next_record(the, judged)
    except Unavailable as error:
        return explain.unreachable(group, processes, error.happened, now), {}
    waiting = _put_off(the, run)
    said = explain.with_put_off(explain.group(group, run, judged, processes, _described(record), now), waiting)
    details = {
        "kafka_state": judged.state,
        "members": judged.members,
        "processes": processes,
        "record": _place(record) if record else None,
        "put_off": waiting,
    }
    return said, details


def _put_off(the: Frame, run: str) -> dict[str, PutOff]:
    """What waits for a root in an upload group, by source; nothing is known of it while the catalog is away."""
    from headwater.connectors.catalog import deferred
    from headwater.schemas.topics import fs_changes, fs_parts

    topic_of = {"upload-files": fs_changes, "upload-parts": fs_parts}
    if run not in topic_of:
        return {}
    try:
        with the.catalog.transaction() as transaction:
            return deferred.put_off(transaction, topic_of[run](the.settings.site).name)
    except Unavailable:
        return {}


def _unknown(the: Frame, name: str) -> NotFound:
    from headwater.connectors.kafka.lag import group_lags

    known = [group.group for group in group_lags(the.kafka, time.time())]
    return NotFound(
        f"there is no group {name!r}: it has no member and never committed anything.",
        asked=f"What holds up {name} was to be found.",
        advice=f"There are: {', '.join([*known, 'agent-SOURCE', 'commit-DATASET', *why_jobs.PARTS])}.",
    )


def _next_record(the: Frame, judged: JudgedGroup) -> Seen | None:
    """The record that the worst partition would read next."""
    from headwater.connectors.kafka.browse import record_at

    worst = judged.worst
    if worst is None or not worst.lag.records:
        return None
    return record_at(the.kafka, worst.lag.topic, worst.lag.partition, worst.lag.committed or 0)


def _described(seen: Seen | None) -> str:
    from headwater.connectors.kafka.browse import key_text

    if seen is None:
        return ""
    what = type(seen.record).__name__ if seen.record is not None else f"a record that does not decode ({seen.problem})"
    return f"{what} of {key_text(seen.topic, seen.key)} at offset {seen.offset:,}"


def _place(seen: Seen) -> dict[str, Any]:
    return {
        "topic": seen.topic,
        "partition": seen.partition,
        "offset": seen.offset,
        "type": type(seen.record).__name__ if seen.record is not None else None,
        "record": seen.record,
        "problem": seen.problem or None,
    }


def _agent(the: Frame, name: str) -> Explanation:
    from headwater.cli import explain
    from headwater.connectors.catalog import exceptions, progress

    source = name.removeprefix("agent-")
    process = next(iter(local_processes(the.settings.state_folder, name)), None)
    try:
        with the.catalog.transaction() as transaction:
            found = [one for one in progress.progress(transaction).sources if one.source == source]
            listed = exceptions.excepted(transaction, source, _EXCEPTIONS_NAMED)
    except Unavailable:
        if process is None:
            raise
        return explain.agent(name, process, None, [])
    if process is None and not found:
        raise NotFound(
            f"there is no source {source!r}: no agent of it ever started.",
            asked=f"What holds up {name} was to be found.",
            advice="`headwater progress` shows the sources that there are.",
        )
    more = found[0].exceptions - len(listed) if found else 0
    named = [f"{display(one.path)} ({one.reason})" for one in listed] + ([f"and {more:,} more"] if more > 0 else [])
    return explain.agent(name, process, found[0] if found else None, named)


def _committer(the: Frame, name: str) -> Explanation:
    from headwater.cli import explain
    from headwater.connectors.catalog import versions

    dataset = name.removeprefix("commit-")
    process = next(iter(local_processes(the.settings.state_folder, name)), None)
    now = datetime.now(UTC)
    try:
        with the.catalog.transaction() as transaction:
            found = versions.find(transaction, dataset)
            head = versions.newest(transaction, dataset)
            intent = versions.open_intent(transaction, dataset)
    except Unavailable:
        if process is None or process.state == "running":
            raise
        return explain.committer(name, process, None, None, None, now)
    return explain.committer(name, process, found, head, intent, now)


def local_processes(state_folder: Path, name: str) -> list[LocalProcess]:
    """The processes of that name on this host; a file that a killed one left behind does not count. One that lives and
    does not answer is ``silent``."""
    from headwater.cli.explain import LocalProcess
    from headwater.cli.members import health
    from headwater.stack.processes import alive

    found = []
    for file in sorted((state_folder / "run").glob(f"{name}.*.http")):
        pid = file.name.removeprefix(f"{name}.").removesuffix(".http")
        if pid.isdigit():
            try:
                said = health(file.read_text("utf-8").strip())
            except (OSError, ValueError):
                running = alive(name, state_folder)
                if running is not None and running.pid == int(pid):
                    found.append(LocalProcess(int(pid), "silent", "it lives and does not answer over HTTP", {}))
                continue
            found.append(LocalProcess(int(pid), said["state"], said["reason"], said["facts"]))
    return found
