"""``headwater group``: what operators do to consumer groups by hand, and the record of it.

A reset, and what a crash after each step leaves:

1. plan    the group is seen to be empty; from and to are known       nothing happened
2. record  who does what and why stands in the catalog, not done      nothing happened; the record says that it may have
3. move    the offsets are committed, all in one request              done, though the record does not know it
4. finish  the record says that it is done                            done

Kafka itself refuses step 3 where a member joined after step 1. Repeating a reset to the same place changes nothing.
"""

from __future__ import annotations

import getpass
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson, Frame
from headwater.rules.errors import BadSettings

if TYPE_CHECKING:
    from headwater.connectors.kafka.groups import Move

app = typer.Typer(no_args_is_help=True, help="Consumer groups: set one back or ahead, and who did so.")


@app.command()
def reset(
    context: typer.Context,
    group: Annotated[str, typer.Argument(help="As `headwater lag` shows it.")],
    to: Annotated[
        str, typer.Option("--to", help="beginning, end, an offset, a time (2026-11-30T08:00), or a time ago (-5m).")
    ],
    reason: Annotated[str, typer.Option(help="Why: it is kept in the catalog, for whoever wonders later.")],
    only: Annotated[
        list[str] | None, typer.Option("--partition", metavar="TOPIC/N", help="Only this one. May be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show from where to where.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set where a group reads on, while it has no member.

    Reading again is safe: every step is safe to repeat. What is skipped is never processed, unless something sends it
    again. Refused while the group has members, who are named.
    """
    from headwater.connectors.kafka import groups
    from headwater.connectors.kafka.browse import start_at

    the = frame.of(context)
    if not reason.strip():
        raise typer.BadParameter("--reason is empty.")
    moves = groups.plan(the.kafka, group, start_at(to, datetime.now(UTC), "--to"), [_place(one) for one in only or ()])
    if not dry_run:
        _do(the, group, moves, reason)
    if as_json:
        document = [{**output.plain(one), "skipped": one.skipped} for one in moves]
        output.print_json({"group": group, "dry_run": dry_run, "reason": reason, "partitions": document})
        return
    _print(group, moves, dry_run=dry_run)


def _do(the: Frame, group: str, moves: list[Move], reason: str) -> None:
    """Steps 2 to 4."""
    from headwater.connectors.catalog import actions
    from headwater.connectors.kafka import groups

    operator = f"{getpass.getuser()}@{socket.gethostname()}"
    with the.catalog.transaction() as transaction:
        number = actions.begin(transaction, operator, "group reset", group, reason, output.plain(moves))
    groups.move(the.kafka, group, moves)
    with the.catalog.transaction() as transaction:
        actions.finish(transaction, number)


def _place(text: str) -> tuple[str, int]:
    topic, _, number = text.rpartition("/")
    if not topic or not number.isdigit():
        raise BadSettings(
            f"{text!r} is no partition.",
            asked="A partition was given with --partition.",
            advice="Give TOPIC/NUMBER, such as sync.objects/3, as `headwater lag --partitions` shows it.",
        )
    return topic, int(number)


def _print(group: str, moves: list[Move], *, dry_run: bool) -> None:
    rows = [
        (
            f"{one.topic}/{one.partition}",
            "(beginning)" if one.before is None else f"{one.before:,}",
            f"{one.after:,}",
            _effect(one),
        )
        for one in moves
    ]
    console = output.console()
    console.print(output.table(("partition", "from", "to", "so the group"), rows, right=("from", "to")))
    again = sum(-one.skipped for one in moves if one.skipped < 0)
    skipped = sum(one.skipped for one in moves if one.skipped > 0)
    verb = "would read" if dry_run else "reads"
    output.say(console, f"\n{group} {verb} up to {again:,} records again and skips up to {skipped:,}.")
    advice = "Without --dry-run it is done." if dry_run else "Done and recorded: `headwater group history`."
    output.say(console, Text(advice, style="cyan"))


def _effect(one: Move) -> Text:
    if one.skipped > 0:
        return Text(f"skips {one.skipped:,}", style="yellow")
    return Text(f"reads {-one.skipped:,} again" if one.skipped else "stays")


@app.command()
def history(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show what operators did to groups, who, and why."""
    from headwater.connectors.catalog import actions

    with frame.of(context).catalog.transaction() as transaction:
        found = actions.newest(transaction, limit)
    if as_json:
        output.print_json(found)
        return
    rows = [
        (
            one.at.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            one.operator,
            f"{one.action} {one.subject}",
            one.reason,
            "" if one.done else Text("perhaps not done", style="yellow"),
        )
        for one in found
    ]
    output.console().print(output.table(("at", "by", "what", "why", ""), rows) if rows else "Nobody did anything yet.")
