"""``headwater dead``: the records that groups gave up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.default import meaning
from headwater.cli.frame import AsJson
from headwater.cli.inspect import fields_of
from headwater.rules.errors import BadRecord, NotFound, Refused

if TYPE_CHECKING:
    from headwater.connectors.kafka.dead_letters import Letter

app = typer.Typer(cls=meaning("list"), help="Records that a group gave up, and their way back.")

Topic = Annotated[str | None, typer.Option(help="Only letters from this topic.")]
Error = Annotated[str | None, typer.Option(help="Only letters of this class of error, such as BadRecord.")]
GroupName = Annotated[str | None, typer.Option("--group", help="Only letters that this group gave up.")]
Key = Annotated[str | None, typer.Option(help="Only letters whose key, as it is shown, contains this.")]

_NAMED = 20
"""More letters than these are summed up instead of listed."""


@app.command("list")
def list_letters(
    context: typer.Context,
    topic: Topic = None,
    error: Error = None,
    group: GroupName = None,
    key: Key = None,
    all_letters: Annotated[bool, typer.Option("--all", help="Also those that were redriven.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the dead letters that wait, oldest first.

    What `headwater dead` does by itself.
    """
    from headwater.connectors.kafka.dead_letters import letters

    is_wanted = _filter(topic, error, group, key)
    found = [
        letter for letter in letters(frame.of(context).kafka) if is_wanted(letter) and (letter.open or all_letters)
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
    if record.cut_bytes:
        lines.append(("cut", f"{record.cut_bytes:,} bytes are left out here; redriving takes them from the topic"))
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
    group: GroupName = None,
    key: Key = None,
    rate: Annotated[float | None, typer.Option(min=0.1, metavar="N", help="At most so many a second.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also those that were redriven 3 times already and failed each time.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to where they came from, once.

    Their group then tries them again. Key, value and headers are as they were, with headwater-redrives one higher. A
    letter that was redriven is not sent again; if its record fails again, that is a new letter, and after three such
    rounds it is left alone unless --again says otherwise. Mend the cause first: `headwater dead show LETTER`.
    """
    from headwater.connectors.kafka.dead_letters import Redrive, letters

    if bool(chosen) == every:
        raise typer.BadParameter("name the letters, or give --all (which --topic, --error, --group, --key narrow).")
    names, kafka = frozenset(chosen or ()), frame.of(context).kafka
    is_wanted = _filter(topic, error, group, key)

    def wanted(letter: Letter) -> bool:
        return (every or letter.id in names) and is_wanted(letter)

    known = letters(kafka)
    _refuse_unknown(names, known)
    held = [] if again else [letter for letter in known if letter.open and wanted(letter) and _loops(letter)]
    if held and names:
        raise _refused(held)
    if dry_run:
        sent = [letter for letter in known if letter.open and wanted(letter) and (again or not _loops(letter))]
    else:
        sent = Redrive(kafka).run(lambda letter: wanted(letter) and (again or not _loops(letter)), rate)
    if as_json:
        output.print_json({
            "dry_run": dry_run,
            "redriven": [letter.id for letter in sent],
            "held": [letter.id for letter in held],
        })  # fmt: skip
        return
    _print_redriven(sent, held, len(names - {letter.id for letter in sent}), dry_run=dry_run)


def _loops(letter: Letter) -> bool:
    from headwater.connectors.kafka.dead_letters import REDRIVES_UNASKED

    return letter.record.redrives >= REDRIVES_UNASKED


def _refuse_unknown(names: Collection[str], known: Iterable[Letter]) -> None:
    if unknown := set(names) - {letter.id for letter in known}:
        raise NotFound(
            f"there is no dead letter {sorted(unknown)[0]}.",
            asked="Dead letters were to be redriven.",
            kept="None was sent.",
            advice="`headwater dead list` names those that there are.",
        )


def _refused(held: list[Letter]) -> Refused:
    return Refused(
        f"{held[0].id} was redriven {held[0].record.redrives} times and failed each time.",
        asked="Dead letters were to be redriven.",
        kept="None was sent.",
        advice=f"See `headwater dead show {held[0].id}`, mend the cause, and give --again.",
    )


def _print_redriven(sent: list[Letter], held: list[Letter], already: int, *, dry_run: bool) -> None:
    console = output.console()
    if len(sent) <= _NAMED:
        for letter in sent:
            console.print(letter.id, markup=False)
    else:
        counts = Counter((letter.record.topic, letter.record.error) for letter in sent)
        rows = [(topic, error, f"{count:,}") for (topic, error), count in counts.most_common()]
        console.print(output.table(("topic", "error", "letters"), rows, right=("letters",)))
    verb = "would be redriven" if dry_run else "redriven"
    output.say(console, f"{len(sent):,} {verb}" + (f", {already} had been before." if already else "."))
    if held:
        output.say(
            console,
            Text(
                f"{len(held):,} were redriven 3 times and failed each time: left, --again sends them.", style="yellow"
            ),
        )


def _filter(topic: str | None, error: str | None, group: str | None, key: str | None) -> Callable[[Letter], bool]:
    from headwater.connectors.kafka.browse import key_text

    def is_wanted(letter: Letter) -> bool:
        record = letter.record
        exact = ((topic, record.topic), (error, record.error), (group, record.group))
        return all(asked in (None, found) for asked, found in exact) and (
            key is None or key in key_text(record.topic, record.original_key)
        )

    return is_wanted


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
            "cut_bytes": record.cut_bytes,
        }
    return document


def display_of(value: bytes | None) -> str:
    """A header's value for people."""
    plain = output.plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain)
