"""``headwater inspect``: the records of a topic, decoded."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.rules.identity import HASH_BYTES, display

if TYPE_CHECKING:
    from headwater.connectors.kafka.browse import Seen

_GARBAGE_SHOWN_BYTES = 64


def inspect(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="Name as `headwater topics describe` shows it.")],
    start: Annotated[
        str, typer.Option("--from", help="beginning, end, an offset, a time (2026-11-30T08:00), or a time ago (-5m).")
    ] = "beginning",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end, until Ctrl-C.")] = False,
    key: Annotated[str | None, typer.Option(help="Only records whose key, as it is shown, contains this.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Stop after so many records.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the records of a topic, decoded.

    What does not decode is shown with the reason. Commits nothing. With --json each record is one line.
    """
    from headwater.connectors.kafka.browse import browse, key_text, start_at

    console, count = output.console(), 0
    begin = start_at(start, datetime.now(UTC))
    wanted = None if key is None else lambda seen: key in key_text(topic, seen.key)
    for seen in browse(frame.of(context).kafka, topic, begin, follow=follow, wanted=wanted, limit=limit):
        count += 1
        if as_json:
            output.print_json(_document(seen, key_text(topic, seen.key)), lines=True)
        else:
            _print(console, seen, key_text(topic, seen.key))
    if not count and not as_json:
        console.print(f"No record of {topic} from {start}{' with that key' if key else ''}.", style="dim")


def _document(seen: Seen, key: str) -> dict[str, Any]:
    record = {"type": type(seen.record).__name__, **output.plain(seen.record)} if seen.record else None
    return {
        "topic": seen.topic,
        "partition": seen.partition,
        "offset": seen.offset,
        "timestamp": datetime.fromtimestamp(seen.timestamp_ms / 1000, UTC).isoformat(),
        "key": key,
        "record": record,
        "problem": seen.problem or None,
        "value_hex": seen.value.hex() if seen.value is not None and record is None else None,
        "headers": {name: output.plain(value) for name, value in seen.headers},
    }


def _print(console: Console, seen: Seen, key: str) -> None:
    head = Text()
    head.append(f"{seen.partition}/{seen.offset}".ljust(10), style="cyan")
    head.append(output.moment(seen.timestamp_ms) + "  ", style="dim")
    head.append(key, style="bold")
    console.print(head, soft_wrap=True)
    console.print(_body(seen), soft_wrap=True)


def _body(seen: Seen) -> Text:
    body = Text("          ")
    if seen.record is None:
        body.append(seen.problem, style="red" if seen.value is not None else "dim")
        if seen.value:
            more = "…" if len(seen.value) > _GARBAGE_SHOWN_BYTES else ""
            body.append(f"  {seen.value[:_GARBAGE_SHOWN_BYTES]!r}{more}", style="dim")
        return body
    body.append(type(seen.record).__name__, style="green")
    for name, value in fields_of(seen.record):
        body.append(f"  {name} ", style="dim")
        body.append(value)
    return body


def fields_of(record: Any) -> list[tuple[str, str]]:
    """The fields of a record for people: those that differ from their default; paths and times readable, hashes hex."""
    shown = []
    for field in fields(record):
        value = getattr(record, field.name)
        if value != field.default and value not in (b"", "") and field.name != "display":
            shown.append((field.name, _field_text(field.name, value)))
    return shown


def _field_text(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex() if len(value) == HASH_BYTES else display(value)
    if name == "mtime_ns":
        return output.moment(value // 1_000_000)
    return f"{value:o}" if name == "mode" and isinstance(value, int) else str(value)
