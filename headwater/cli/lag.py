"""``headwater lag``: how far each consumer group is behind, whether it catches up, and which partition does not."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.cli.run import run_name

if TYPE_CHECKING:
    from headwater.cli.verdicts import JudgedGroup, JudgedPartition

_LATE_SECONDS, _VERY_LATE_SECONDS = 60.0, 600.0
_STYLES = {"ok": "green", "slow": "yellow", "rewound": "yellow", "stalled": "bold red", "stopped": "bold red"}


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
    """Show how far behind each group is, and if it catches up.

    Seconds are the age of the next unread record: exact, whatever the traffic. The trend is the growth (↑) or fall (↓)
    of the lag over the last 5 minutes, as Kafka's own log of commits tells it.

    Verdicts: ok (nothing waits, or it keeps up); slow (more comes than it takes); rewound (it was set back and reads
    again); stalled (a member holds it, nothing was committed for a minute); stopped (records wait, nobody reads).
    `headwater why GROUP` tells more. With --watch --json, one line a measurement.
    """
    from headwater.cli.verdicts import LagWindow

    window = LagWindow(frame.of(context).kafka, frozenset(groups or ()), every)
    measured = window.measure()
    if as_json:
        output.print_json(_document(measured), lines=watch)
        while watch:
            time.sleep(every)
            output.print_json(_document(window.measure()), lines=True)
        return
    if not watch:
        output.console().print(_shown(measured, partitions))
        return
    with Live(_shown(measured, partitions), console=output.console(), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(_shown(window.measure(), partitions), refresh=True)


def _document(groups: Iterable[JudgedGroup]) -> list[dict[str, Any]]:
    return [
        {
            "group": group.group,
            "state": group.state,
            "members": group.members,
            "verdict": group.verdict,
            "records": group.records,
            "seconds": group.seconds,
            "growth_per_second": group.growth,
            "drain_seconds": group.drain_seconds,
            "partitions": [
                {
                    **output.plain(at.lag),
                    "verdict": at.judgement.verdict,
                    "sentence": at.sentence,
                    "consumed_per_second": at.judgement.consumed,
                    "produced_per_second": at.judgement.produced,
                    "idle_seconds": at.judgement.idle_seconds,
                    "drain_seconds": at.judgement.drain_seconds,
                }
                for at in group.partitions
            ],
        }
        for group in groups
    ]


def _shown(groups: list[JudgedGroup], partitions: bool) -> Group | Text:
    if not groups:
        return Text("No consumer group of this installation has a member or a committed offset yet.")
    rows = [
        (
            group.group,
            _verdict(group.verdict),
            group.members,
            f"{group.records:,}",
            _age(group.seconds, group.records),
            _trend(group),
            _drain(group.drain_seconds, group.records),
        )
        for group in groups
    ]
    columns = ("group", "verdict", "members", "records", "behind", "trend", "drain")
    summary = output.table(columns, rows, right=columns[2:])
    below = [Text(), _details(groups)] if partitions else _remarks(groups)
    return Group(summary, *below, *_advice(groups))


def _details(groups: list[JudgedGroup]) -> Table:
    rows: list[tuple[str | Text, ...]] = []
    for group in groups:
        rows.append((Text(group.group, style="bold"), "", "", "", ""))
        for at in group.partitions:
            said = f" {at.sentence}" if at.lag.records else ""
            rows.append(
                (
                    f"  {at.lag.topic}/{at.lag.partition}",
                    "" if at.lag.committed is None else f"{at.lag.committed:,}",
                    f"{at.lag.records:,}",
                    _age(at.lag.seconds, at.lag.records),
                    _verdict(at.judgement.verdict).append(said, style="not bold default"),
                )
            )
    columns = ("partition", "committed", "records", "behind", "verdict")
    return output.table(columns, rows, right=columns[1:4])


def _remarks(groups: list[JudgedGroup]) -> list[Text]:
    """What is wrong, the worst first: of each group and verdict the partition that is furthest behind."""
    wrong: dict[tuple[str, str], list[JudgedPartition]] = {}
    for group in groups:
        if group.members:
            for at in group.partitions:
                if at.judgement.verdict.severity:
                    wrong.setdefault((group.group, at.judgement.verdict), []).append(at)
    lines = []
    for (name, verdict), found in sorted(wrong.items(), key=lambda item: -item[1][0].judgement.verdict.severity):
        worst = max(found, key=lambda at: at.lag.seconds)
        line = Text(f"{name} ").append(verdict, _STYLES[verdict])
        more = f" ({len(found) - 1:,} more partitions too)" if len(found) > 1 else ""
        lines.append(line.append(f" in {worst.lag.topic}/{worst.lag.partition}: {worst.sentence}{more}."))
    return [Text(), *lines] if lines else []


def _advice(groups: list[JudgedGroup]) -> list[Text]:
    lines = []
    for group in groups:
        if lost := sum(at.lag.lost for at in group.partitions):
            said = f"{group.group}: retention deleted {lost:,} records before it read them."
            lines.append(Text(said, style="bold red"))
        if group.verdict == "stopped" and not group.members:
            said = f"{group.group} has no member: start one with `headwater run {run_name(group.group)}`."
            lines.append(Text(said, style="cyan"))
    return [Text(), *lines] if lines else []


def _verdict(verdict: str) -> Text:
    return Text(verdict, style=_STYLES[verdict])


def _trend(group: JudgedGroup) -> str:
    if not group.records or not group.growth:
        return ""
    return f"{'↑' if group.growth > 0 else '↓'} {output.rate(abs(group.growth))}"


def _drain(seconds: float | None, records: int) -> str:
    if not records:
        return ""
    return "never" if seconds is None else output.duration(seconds)


def _age(seconds: float, records: int) -> Text:
    if not records:
        return Text("–", style="green")
    style = "red" if seconds > _VERY_LATE_SECONDS else "yellow" if seconds > _LATE_SECONDS else ""
    return Text(output.duration(seconds), style=style)
