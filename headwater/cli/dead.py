"""``headwater dead``: the records that groups gave up."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.default import meaning
from headwater.cli.frame import AsJson
from headwater.cli.inspect import fields_of
from headwater.rules.errors import BadRecord, NotFound

if TYPE_CHECKING:
    from headwater.connectors.kafka.dead_letters import Letter

app = typer.Typer(cls=meaning("list"), help="Records that a group gave up, and their way back.")

Topic = Annotated[str | None, typer.Option(help="Only letters from this topic.")]
Error = Annotated[str | None, typer.Option(help="Only letters of this class of error, such as BadRecord.")]


@app.command("list")
def list_letters(
    context: typer.Context,
    topic: Topic = None,
    error: Error = None,
    all_letters: Annotated[bool, typer.Option("--all", help="Also those that were redriven.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the dead letters that wait, oldest first.

    What `headwater dead` does by itself.
    """
    from headwater.connectors.kafka.dead_letters import letters

    found = [
        letter
        for letter in letters(frame.of(context).kafka)
        if _wanted(letter, topic, error) and (letter.open or all_letters)
    ]
    if as_json:
        output.print_json([_document(letter) for letter in found])
        return
    console = output.console()
    if not found:
        console.print("No dead letters.")
        return
    rows = [
        (
            letter.id,
            output.moment(letter.timestamp_ms),
            letter.record.group,
            letter.record.error,
            letter.record.redrives,
            "waits" if letter.open else "redriven",
            letter.record.message,
        )
        for letter in found
    ]
    columns = ("letter", "buried", "group", "error", "redrives", "state", "message")
    console.print(output.table(columns, rows, right=("redrives",)))
    errors = Counter(letter.record.error for letter in found if letter.open)
    console.print("\n" + ", ".join(f"{count} × {name}" for name, count in errors.most_common()))
    console.print(
        "`headwater dead show LETTER` decodes one; `headwater dead redrive LETTER` sends it back.", style="dim"
    )


@app.command()
def show(
    context: typer.Context,
    letter: Annotated[str, typer.Argument(help="topic/partition/offset, as `headwater dead list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: why it died, and its payload."""
    from headwater.connectors.kafka.browse import key_text
    from headwater.connectors.kafka.dead_letters import letter as find

    found = find(frame.of(context).kafka, letter)
    if as_json:
        output.print_json(_document(found, whole=True))
        return
    record, payload, problem = found.record, *_payload(found)
    lines = [
        ("letter", found.id + ("" if found.open else "  (redriven)")),
        ("buried", f"{output.moment(found.timestamp_ms)} by group {record.group}, after {record.redrives} redrives"),
        ("error", f"{record.error}: {record.message}"),
        ("key", key_text(record.topic, record.original_key)),
        *(("header", f"{header.name} = {display_of(header.value)}") for header in record.headers),
    ]
    console = output.console()
    for name, value in lines:
        console.print(Text(f"{name:>8}  ", style="dim").append(value, style="not dim"), soft_wrap=True)
    if payload is not None:
        console.print(Text("\n payload  ", style="dim").append(type(payload).__name__, style="not dim green"))
        for name, value in fields_of(payload):
            console.print(Text(f"          {name} = ", style="dim").append(value, style="not dim"), soft_wrap=True)
    else:
        console.print(Text("\n payload  ", style="dim").append(problem, style="not dim red"), soft_wrap=True)
        console.print(f"          {record.value!r}", markup=False, soft_wrap=True)
    console.print("\n" + record.stack, style="dim", markup=False, soft_wrap=True)


@app.command()
def redrive(
    context: typer.Context,
    chosen: Annotated[list[str] | None, typer.Argument(metavar="LETTER", help="Letters to send back.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that wait, or all that the filters leave.")] = False,
    topic: Topic = None,
    error: Error = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to where they came from, once.

    Their group then tries them again. Key, value and headers are as they were, with headwater-redrives one higher. A
    letter that was redriven is not sent again; if its record fails again, that is a new letter.
    """
    from headwater.connectors.kafka.dead_letters import Redrive, letters

    if bool(chosen) == every:
        raise typer.BadParameter("name the letters, or give --all (which --topic and --error narrow).")
    names = frozenset(chosen or ())
    kafka = frame.of(context).kafka

    def wanted(letter: Letter) -> bool:
        return (every or letter.id in names) and _wanted(letter, topic, error)

    known = letters(kafka)
    if unknown := names - {letter.id for letter in known}:
        raise NotFound(
            f"there is no dead letter {sorted(unknown)[0]}.",
            asked="Dead letters were to be redriven.",
            kept="None was sent.",
            advice="`headwater dead list` names those that there are.",
        )
    sent = [letter for letter in known if letter.open and wanted(letter)] if dry_run else Redrive(kafka).run(wanted)
    if as_json:
        output.print_json({"dry_run": dry_run, "redriven": [letter.id for letter in sent]})
        return
    for letter in sent:
        output.console().print(letter.id, markup=False)
    already = names - {letter.id for letter in sent}
    verb = "would be redriven" if dry_run else "redriven"
    output.console().print(f"{len(sent)} {verb}" + (f", {len(already)} had been before." if already else "."))


def _wanted(letter: Letter, topic: str | None, error: str | None) -> bool:
    return topic in (None, letter.record.topic) and error in (None, letter.record.error)


def _payload(letter: Letter) -> tuple[Any, str]:
    from headwater.schemas import codec

    try:
        return codec.decode(letter.record.value), ""
    except BadRecord as error:
        return None, error.happened


def _document(letter: Letter, *, whole: bool = False) -> dict[str, Any]:
    record = letter.record
    document: dict[str, Any] = {
        "letter": letter.id,
        "open": letter.open,
        "buried_ms": letter.timestamp_ms,
        "group": record.group,
        "error": record.error,
        "message": record.message,
        "redrives": record.redrives,
    }
    if whole:
        payload, problem = _payload(letter)
        document |= {
            "key_hex": None if record.original_key is None else record.original_key.hex(),
            "value_hex": None if record.value is None else record.value.hex(),
            "headers": {header.name: output.plain(header.value) for header in record.headers},
            "payload": output.plain(payload),
            "problem": problem or None,
            "stack": record.stack,
        }
    return document


def display_of(value: bytes | None) -> str:
    """A header's value for people."""
    plain = output.plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain)
