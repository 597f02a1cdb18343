"""``headwater transactions``: those that are open, whose they are, and which partitions wait for them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.cli.run import GROUPS
from headwater.rules.errors import Refused
from headwater.schemas.topics import catalogue

if TYPE_CHECKING:
    from headwater.connectors.kafka.client import Kafka
    from headwater.connectors.kafka.transactions import HeldUp, Transaction

_SECOND_LOOK_SECONDS = 0.5
"""Our transactions last milliseconds."""


def transactions(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also those of other programs on the cluster.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show open transactions: their age, owner and partitions.

    Ours last milliseconds, 10 s at most when their member dies. Also named: partitions whose end readers of committed
    records may not see although nobody has a transaction open there (a hanging transaction).
    """
    from headwater.connectors.kafka.transactions import held_up, open_transactions

    the = frame.of(context)
    kafka, now = the.kafka, time.time()
    prefix = kafka.config.prefix
    unread = ""
    try:
        opened = open_transactions(kafka, now)
    except Refused as refused:
        opened, unread = [], refused.happened
    waiting = held_up(kafka, [topic.name for topic in catalogue((the.settings.site,))])
    hanging = [] if unread else _hanging(kafka, opened, waiting)
    found = [one for one in opened if every or _is_ours(one, prefix)]
    if as_json:
        output.print_json({
            "open": [_document(one, prefix, now) for one in found],
            "held_up": waiting,
            "hanging": hanging,
            "unreadable": unread or None,
        })  # fmt: skip
        return
    _print(found, waiting, hanging, unread, prefix, now)


def _is_ours(one: Transaction, prefix: str) -> bool:
    """Of this installation, or of another program that wrote to its topics."""
    return one.transactional_id.startswith(prefix) or any(topic.startswith(prefix) for topic, _ in one.partitions)


def _hanging(kafka: Kafka, opened: Iterable[Transaction], waiting: Iterable[HeldUp]) -> list[HeldUp]:
    """The partitions that wait although no open transaction is known to have written there.

    One may have begun between the two questions: only what still waits at the same place is told.
    """
    from headwater.connectors.kafka.transactions import held_up

    taken = {place for one in opened for place in one.partitions}
    suspects = [one for one in waiting if (kafka.physical(one.topic), one.partition) not in taken]
    if not suspects:
        return []
    time.sleep(_SECOND_LOOK_SECONDS)
    still = {(one.topic, one.partition, one.stable) for one in held_up(kafka, {one.topic for one in suspects})}
    return [one for one in suspects if (one.topic, one.partition, one.stable) in still]


def owner(transactional_id: str) -> str:
    """Whose it is, from how our processes name their ids: group.host.number of a member, commit.dataset, …"""
    run = next((name for name in GROUPS if transactional_id.startswith(f"{name}.")), None)
    if run == "commit":
        return f"the committer of {transactional_id.removeprefix('commit.')}"
    if run is not None:
        host, _, number = transactional_id.removeprefix(f"{run}.").rpartition(".")
        if run.startswith("upload-"):  # the site's name comes first
            host = host.partition(".")[2]
        return f"member {number} of {run} on {host}"
    return "a redrive of dead letters" if transactional_id == "dead-letters.redrive" else "another program"


def _document(one: Transaction, prefix: str, now: float) -> dict[str, Any]:
    return {
        **output.plain(one),
        "state": one.state.name,
        "owner": owner(one.transactional_id.removeprefix(prefix)),
        "age_seconds": now - one.started_at,
    }


def _print(
    found: list[Transaction], waiting: list[HeldUp], hanging: list[HeldUp], unread: str, prefix: str, now: float
) -> None:
    console = output.console()
    rows = [
        (
            owner(one.transactional_id.removeprefix(prefix)),
            one.state.name.replace("_", " "),
            _age(now - one.started_at, one.timeout_seconds),
            _partitions(one, prefix),
        )
        for one in found
    ]
    if rows:
        console.print(output.table(("owner", "state", "open for", "wrote to"), rows, right=("open for",)))
    elif not unread:
        output.say(console, "No transaction is open.")
    if unread:
        said = f"Which transactions are open cannot be told: {unread}"
        output.say(console, Text(said, style="yellow"))
    for one in hanging if not unread else waiting:
        said = f"{one.topic}/{one.partition}: readers see up to {one.stable:,}, it ends at {one.end:,}"
        nobody = "" if unread else ", and nobody has a transaction open there: it hangs"
        output.say(console, Text(f"{said}{nobody}.", style="bold red"))
    if hanging:
        advice = "Find and abort it with Kafka's own tool: `kafka-transactions.sh find-hanging`, then `abort`."
        output.say(console, Text(advice, style="cyan"))


def _age(seconds: float, timeout_seconds: float) -> Text:
    return Text(output.duration(max(0.0, seconds)), style="red" if seconds > timeout_seconds else "")


def _partitions(one: Transaction, prefix: str) -> str:
    topics: dict[str, list[int]] = {}
    for topic, partition in one.partitions:
        topics.setdefault(topic.removeprefix(prefix), []).append(partition)
    return ", ".join(f"{topic}/{','.join(map(str, sorted(numbers)))}" for topic, numbers in sorted(topics.items()))
