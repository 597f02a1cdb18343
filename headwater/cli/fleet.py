"""``headwater fleet``: what each stage carries and how each group is, from the views on the log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.rules.errors import NotFound

if TYPE_CHECKING:
    from headwater.connectors.kafka.client import Kafka
    from headwater.schemas.records import GroupView, StageView

_OLD_SECONDS = 60.0
"""Views are written every ten seconds."""

_MICROSECONDS = 1_000_000
_STYLES = {
    "running": "green",
    "paused": "green",
    "starting": "yellow",
    "draining": "yellow",
    "stopped": "dim",
    "degraded": "bold red",
    "silent": "bold red",
    "ok": "green",
    "slow": "yellow",
    "stalled": "bold red",
}


@dataclass(frozen=True, slots=True)
class Fleet:
    """``at`` is the time that the views show, in seconds since 1970."""

    at: float
    stages: tuple[StageView, ...]
    groups: tuple[GroupView, ...]


def fleet(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, metavar="SECONDS", help="Between two looks.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show what each stage carries, and how each group is.

    Every process says every 5 seconds what it did; `headwater run views` adds that up and writes it to the log, where
    this command reads it. Rates are means over the last minute and the last 5 minutes. Where records pile up before a
    stage, that stage is the bottleneck. A group is silent when none of its members was heard of for 30 seconds and none
    said goodbye. With --watch --json, one line a look.
    """
    kafka = frame.of(context).kafka
    if as_json:
        output.print_json(_document(_read(kafka)), lines=watch)
        while watch:
            time.sleep(every)
            output.print_json(_document(_read(kafka)), lines=True)
        return
    if not watch:
        output.console().print(_shown(_read(kafka)))
        return
    with Live(_shown(_read(kafka)), console=output.console(), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(_shown(_read(kafka)), refresh=True)


def _read(kafka: Kafka) -> Fleet:
    from headwater.connectors.kafka.newest import newest
    from headwater.schemas.records import GroupView, Stage, StageView
    from headwater.schemas.topics import VIEWS_GROUPS, VIEWS_STAGES

    stages = [record for record in newest(kafka, VIEWS_STAGES).values() if isinstance(record, StageView)]
    groups = [record for record in newest(kafka, VIEWS_GROUPS).values() if isinstance(record, GroupView)]
    if not stages:
        raise NotFound(
            "nobody has written a view of it in the last day.",
            asked="The fleet was to be shown.",
            advice="Start `headwater run views`, or `headwater up` for all. `headwater lag` needs no views.",
        )
    at = max(stage.at_us for stage in stages)
    return Fleet(
        at=at / _MICROSECONDS,
        stages=tuple(sorted(stages, key=lambda stage: list(Stage).index(stage.stage))),
        groups=tuple(sorted(groups, key=lambda group: group.group)),
    )


def _document(fleet: Fleet) -> dict[str, Any]:
    return {"at": fleet.at, "age_seconds": time.time() - fleet.at, "stages": fleet.stages, "groups": fleet.groups}


def _shown(fleet: Fleet) -> Group:
    return Group(_stages(fleet), Text(), _groups(fleet), *_remarks(fleet))


def _stages(fleet: Fleet) -> Table:
    rows = [
        (
            stage.stage,
            stage.members,
            *_rates(stage),
            f"{stage.waiting:,}",
            _behind(stage),
        )
        for stage in fleet.stages
    ]
    columns = ("stage", "members", "1 min", "bytes", "5 min", "bytes", "waiting", "oldest")
    return output.table(columns, rows, right=columns[1:])


def _groups(fleet: Fleet) -> Table:
    rows = [
        (
            group.group,
            _styled(group.state),
            f"{group.members - group.silent}/{group.members}" if group.silent else str(group.members),
            *_rates(group)[:2],
            f"{group.waiting:,}",
            _behind(group),
            _styled(group.verdict) if group.waiting else "",
            str(group.retries or ""),
            str(group.dead_letters or ""),
        )
        for group in fleet.groups
    ]
    columns = ("group", "state", "members", "1 min", "bytes", "waiting", "oldest", "verdict", "retries", "dead")
    return output.table(columns, rows, right=("members", "1 min", "bytes", "waiting", "oldest", "retries", "dead"))


def _remarks(fleet: Fleet) -> Sequence[Text]:
    """What an operator should read: the reasons of what is not well, and views that are old."""
    lines = []
    for group in fleet.groups:
        if group.reason:
            since = f", last {output.duration(fleet.at - group.since_us / _MICROSECONDS)} ago" if group.since_us else ""
            lines.append(Text(f"{group.group} ").append(_styled(group.state)).append(f": {group.reason}{since}"))
    age = time.time() - fleet.at
    if age > _OLD_SECONDS:
        said = f"This is how it was {output.duration(age)} ago: see `headwater lag views` and `headwater logs views`."
        lines.append(Text(said, style="bold red"))
    return [Text(), *lines] if lines else []


def _rates(view: StageView | GroupView) -> tuple[str, str, str, str]:
    return (
        output.rate(view.minute_records or None) or "–",
        f"{output.size(view.minute_bytes)}/s" if view.minute_bytes else "–",
        output.rate(view.five_minutes_records or None) or "–",
        f"{output.size(view.five_minutes_bytes)}/s" if view.five_minutes_bytes else "–",
    )


def _behind(view: StageView | GroupView) -> str:
    if view.oldest_us is None:
        return "–"
    return output.duration(max(0.0, (view.at_us - view.oldest_us) / _MICROSECONDS))


def _styled(word: str) -> Text:
    return Text(word, style=_STYLES.get(word, ""))
