"""``headwater lag``: how far each consumer group is behind, in records and in seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson

if TYPE_CHECKING:
    from headwater.connectors.kafka.lag import GroupLag

_LATE_SECONDS, _VERY_LATE_SECONDS = 60.0, 600.0


def lag(
    context: typer.Context,
    groups: Annotated[
        list[str] | None, typer.Argument(help="Groups to show. Default: all of this installation.")
    ] = None,
    partitions: Annotated[bool, typer.Option("--partitions", "-p", help="Show every partition.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Measure again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, metavar="SECONDS", help="Between two measurements.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show how far each group is behind, in records and time.

    Seconds are the age of the next unread record: exact, whatever the traffic. With --watch an arrow says whether
    a group catches up (↓) or falls behind (↑). With --watch --json, one line a measurement.
    """
    from headwater.connectors.kafka.lag import group_lags

    kafka = frame.of(context).kafka
    wanted = frozenset(groups or ())
    before: dict[str, int] = {}
    measured = group_lags(kafka, time.time(), wanted)
    if as_json:
        output.print_json(measured, lines=watch)
        while watch:
            time.sleep(every)
            output.print_json(group_lags(kafka, time.time(), wanted), lines=True)
        return
    if not watch:
        output.console().print(_shown(measured, before, partitions))
        return
    with Live(_shown(measured, before, partitions), console=output.console(), auto_refresh=False) as live:
        while True:
            before = {group.group: group.records for group in measured}
            time.sleep(every)
            measured = group_lags(kafka, time.time(), wanted)
            live.update(_shown(measured, before, partitions), refresh=True)


def _shown(groups: list[GroupLag], before: dict[str, int], partitions: bool) -> Table | Group | Text:
    if not groups:
        return Text("No consumer group of this installation has a member or a committed offset yet.")
    rows = [
        (
            group.group,
            group.state.lower().replace("_", " "),
            group.members,
            f"{group.records:,} {_trend(group.records, before.get(group.group))}".rstrip(),
            _age(group.seconds, group.records),
            _remark(group),
        )
        for group in groups
    ]
    summary = output.table(
        ("group", "state", "members", "records", "behind", ""), rows, right=("members", "records", "behind")
    )
    if not partitions:
        return summary
    details = [
        (
            group.group,
            f"{at.topic}/{at.partition}",
            "" if at.committed is None else f"{at.committed:,}",
            f"{at.end:,}",
            f"{at.records:,}",
            _age(at.seconds, at.records),
            at.member,
        )
        for group in groups
        for at in group.partitions
    ]
    columns = ("group", "partition", "committed", "end", "records", "behind", "member")
    return Group(summary, Text(), output.table(columns, details, right=("committed", "end", "records", "behind")))


def _trend(now: int, before: int | None) -> str:
    if before is None or now == before:
        return ""
    return "↑" if now > before else "↓"


def _age(seconds: float, records: int) -> Text:
    if not records:
        return Text("–", style="green")
    style = "red" if seconds > _VERY_LATE_SECONDS else "yellow" if seconds > _LATE_SECONDS else ""
    return Text(output.duration(seconds), style=style)


def _remark(group: GroupLag) -> Text:
    lost = sum(partition.lost for partition in group.partitions)
    if lost:
        return Text(f"retention deleted {lost:,} records before it read them", style="bold red")
    if group.records and not group.members:
        return Text("nobody reads: start a member with `headwater run`", style="yellow")
    return Text()
