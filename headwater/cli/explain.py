"""Why a process does what it does, in a word and a sentence: pure functions over what was found out about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headwater.cli import output
from headwater.cli.verdicts import JudgedGroup, JudgedPartition, records_wait
from headwater.connectors.catalog.deferred import PutOff
from headwater.connectors.catalog.progress import SourceProgress
from headwater.connectors.catalog.versions import DatasetRow, Version
from headwater.rules.lag import Verdict

SILENT_SECONDS = 15.0
"""An agent that lives says so every 5 s."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """``state``: running, paused, waiting, stuck, stopped, slow, rewound, rebalancing, halted, silent. ``why`` is a
    sentence without the subject's name; ``advice`` what to do, where there is something to do."""

    subject: str
    state: str
    why: str
    advice: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.subject} is {self.state}: {self.why}"


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """A process of this host as it describes itself. ``since``: seconds since 1970, where it says so."""

    pid: int
    state: str
    reason: str
    facts: Mapping[str, Any]

    @property
    def since(self) -> float | None:
        return self.facts.get("since")


def group(
    name: str, run: str, judged: JudgedGroup, processes: Sequence[LocalProcess], record: str, now: float
) -> Explanation:
    """A consumer group. ``run`` is what `headwater run` calls it; ``record`` describes the record at which its worst
    partition stands. A member that says what it waits for knows best; then come the lag's verdicts."""
    worst = judged.worst
    if degraded := _first(processes, "degraded"):
        return Explanation(name, "waiting", f"{_where(degraded, now)}: {degraded.reason}")
    if judged.state.endswith("REBALANCING"):
        return Explanation(name, "rebalancing", f"it divides its partitions among {_members(judged.members)}")
    is_moving = worst is not None and worst.judgement.verdict not in (Verdict.stopped, Verdict.stalled)
    if (silent := _first(processes, "silent")) and not (judged.members and is_moving):
        why = f"{_silent(silent)}, and {records_wait(judged.records) if judged.records else 'nothing waits'}"
        return Explanation(name, "stuck", why, _kill(silent, run))
    if worst is None or worst.judgement.verdict is Verdict.stopped or not judged.members:
        return _stopped(name, run, judged, worst)
    if paused := _first(processes, "paused"):
        at_work = f"; it is at {record}" if record else ""
        why = f"{_where(paused, now)} holds its partitions while a long step runs{at_work}"
        return Explanation(name, "paused", why, "Nothing to do while the step moves: a large file takes its time.")
    place = f"{worst.lag.topic}/{worst.lag.partition}"
    if worst.judgement.verdict is Verdict.stalled:
        advice = f"See `headwater logs {run}` on {worst.lag.member or 'its host'}."
        return Explanation(name, "stuck", f"in {place} {worst.sentence}; it stands before {record}", advice)
    if worst.judgement.verdict is Verdict.slow:
        advice = f"Start another member: `headwater run {run}`, on this host or another one."
        return Explanation(name, "slow", f"{place} {worst.sentence}", advice)
    if worst.judgement.verdict is Verdict.rewound:
        return Explanation(name, "rewound", f"{place} {worst.sentence}")
    return Explanation(name, "running", f"{_members(judged.members)}, {_running(judged)}")


def _stopped(name: str, run: str, judged: JudgedGroup, worst: JudgedPartition | None) -> Explanation:
    advice = f"Start one with `headwater run {run}`."
    if worst is None:
        return Explanation(name, "stopped", "it has no member and has never committed anything", advice)
    if judged.members:
        place = f"{worst.lag.topic}/{worst.lag.partition}"
        why = f"its members do not read {place}, where {records_wait(worst.lag.records)}"
        return Explanation(name, "stopped", why, "Its members read other topics: look at `site` in their settings.")
    if not judged.records:
        return Explanation(name, "stopped", "it has no member; nothing waits", advice)
    waits = f"{records_wait(judged.records)}, the oldest for {output.duration(judged.seconds)}"
    return Explanation(name, "stopped", f"it has no member; {waits}", advice)


def _running(judged: JudgedGroup) -> str:
    if not judged.records:
        return "nothing waits"
    waits = f"{records_wait(judged.records)}, the oldest for {output.duration(judged.seconds)}"
    drains = f", drained in {output.duration(judged.drain_seconds)} at this pace" if judged.drain_seconds else ""
    return waits + drains


def with_put_off(said: Explanation, waiting: Mapping[str, PutOff]) -> Explanation:
    """An upload group's explanation, with what waits for the roots of its sources while all else goes on."""
    if not waiting:
        return said
    what = "; ".join(f"of {source} {output.put_off(one)}" for source, one in waiting.items())
    mount = " and ".join(waiting)
    advice = (
        said.advice or f"Mount {mount} on this host, or set upload.roots.SOURCE: what waits then goes on by itself."
    )
    return replace(said, why=f"{said.why}; {what}", advice=advice)


def unreachable(name: str, processes: Iterable[LocalProcess], happened: str, now: float) -> Explanation:
    """A group while Kafka does not answer: only what members on this host say is known."""
    if degraded := _first(processes, "degraded"):
        return Explanation(name, "waiting", f"{_where(degraded, now)}: {degraded.reason}")
    return Explanation(name, "waiting", happened, "Start the brokers; members go on by themselves.")


def agent(
    name: str, process: LocalProcess | None, progress: SourceProgress | None, excepted: Sequence[str]
) -> Explanation:
    """An agent: by its own word where it runs on this host, else by its heartbeat in the catalog."""
    busy = f"; not carried now: {', '.join(excepted)}" if excepted else ""
    if process is not None and process.state == "silent":
        return Explanation(name, "silent", f"{_silent(process)}{busy}", _kill(process, name))
    if process is not None and process.state == "halted":
        return Explanation(
            name, "halted", f"{process.reason}{busy}", "Nothing is sent or deleted until that is mended."
        )
    if process is not None and process.state == "degraded":
        return Explanation(name, "waiting", f"{process.reason}{busy}")
    if process is not None:
        return Explanation(name, "running", f"{_agent_at_work(process.facts)}{busy}")
    start = f"Start it with `headwater sync FOLDER --source {name.removeprefix('agent-')}`."
    if progress is None:
        return Explanation(name, "stopped", "no agent has ever owned this source", start)
    if progress.silent_seconds is None:
        return Explanation(name, "stopped", f"{progress.agent} said goodbye{busy}", start)
    silence = output.duration(progress.silent_seconds)
    if progress.silent_seconds > SILENT_SECONDS:
        why = f"{progress.agent} was last heard {silence} ago{busy}"
        return Explanation(name, "silent", why, "Look at that host. " + start)
    elsewhere = f"Ask on its host, {progress.agent.split()[0]}, for what it is doing."
    return Explanation(name, "running", f"{progress.agent} was heard {silence} ago{busy}", elsewhere)


def _agent_at_work(facts: Mapping[str, Any]) -> str:
    waiting = facts["dirty"] + facts["settling"] + facts["reading"]
    parts = [f"{facts['files']:,} files known"]
    parts += [f"{waiting:,} settling or being read"] if waiting else []
    parts += [f"{facts['outbox']:,} records not acknowledged"] if facts["outbox"] else []
    parts += [f"{facts['pending']:,} on their way to verification"] if facts["pending"] else ["all verified"]
    parts += [] if facts["walked"] else ["directories are being listed for the first time since its start"]
    parts += [f"{facts['weak']:,} files with the weak guarantee"] if facts["weak"] else []
    return "; ".join([", ".join(parts), f"events come from {facts['watch']}", *facts["polled"]])


def committer(
    name: str,
    process: LocalProcess | None,
    dataset: DatasetRow | None,
    head: Version | None,
    intent: Version | None,
    now: datetime,
) -> Explanation:
    """A dataset's committer. It serves no group: the catalog tells what it made and what waits."""
    start = f"Start one with `headwater run commit --dataset {name.removeprefix('commit-')}`."
    if process is not None and process.state == "degraded":
        return Explanation(name, "waiting", process.reason)
    if process is not None and process.state == "silent":
        return Explanation(name, "silent", _silent(process), _kill(process, name))
    if dataset is None:
        return Explanation(name, "stopped", "the dataset has no committer and never had one", start)
    made = "no version was published yet"
    if head is not None and head.published_at is not None:
        made = f"version {head.version} was published {_ago(now, head.published_at)} ago"
    waits = f"{dataset.uncommitted:,} changes wait for the next one" if dataset.uncommitted else "nothing new waits"
    if intent is not None:
        waits = f"version {intent.version} was begun {_ago(now, intent.created_at)} ago and is not published"
    if process is None:
        return Explanation(name, "stopped", f"no committer of it runs on this host; {made}, {waits}", start)
    return Explanation(name, "running", f"{made}, {waits}")


def _silent(process: LocalProcess) -> str:
    return f"its process {process.pid} on this host lives and does not answer"


def _kill(process: LocalProcess, name: str) -> str:
    kill = f"`kill -9 {process.pid}` does no harm, `headwater up` then starts another"
    return f"See `headwater logs {name}`; {kill}."


def _ago(now: datetime, then: datetime) -> str:
    return output.duration(max(0.0, (now - then.astimezone(UTC)).total_seconds()))


def _first(processes: Iterable[LocalProcess], state: str) -> LocalProcess | None:
    found = [process for process in processes if process.state == state]
    return min(found, key=lambda process: process.since or 0.0, default=None)


def _where(process: LocalProcess, now: float) -> str:
    since = f" for {output.duration(max(0.0, now - process.since))}" if process.since else ""
    return f"its member {process.facts.get('transactional_id') or f'with pid {process.pid}'}{since}"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count:,} members"
