"""``headwater consent``: an operator's word to deletes that an agent holds back."""

from __future__ import annotations

import getpass
import socket
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.rules.errors import NotFound, Refused
from headwater.rules.identity import display

if TYPE_CHECKING:
    from headwater.connectors.catalog.halts import Halt


def consent(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="A source whose agent holds deletes back.")],
    reason: Annotated[str, typer.Option(help="Why they are meant: it is kept in the catalog.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for the number of paths.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a source delete what its agent holds back.

    Where more than a tenth of a source goes within a day, or its root is empty, deletes halt until someone looks. This
    shows how many paths, the folder that they share and some of them, and asks for their number. They leave the next
    version; earlier versions keep them. `headwater group history` shows who consented, and why.
    """
    from headwater.connectors.catalog import halts

    the = frame.of(context)
    if not reason.strip():
        raise typer.BadParameter("--reason is empty.")
    with the.catalog.transaction() as transaction:
        halt = halts.waiting(transaction, source)
    if halt is None:
        raise NotFound(
            f"source {source!r} holds no deletes back.",
            asked="Consent to deletes was to be given.",
            advice="A running agent says within seconds what it holds back: see `headwater progress`.",
        )
    if not as_json:
        _show(source, halt)
    if not dry_run:
        if not yes:
            _ask(halt)
        with the.catalog.transaction() as transaction:
            halts.consent(transaction, source, halt, f"{getpass.getuser()}@{socket.gethostname()}", reason)
    if as_json:
        document = {"paths": halt.paths, "below": display(halt.subtree), "examples": [*map(display, halt.examples)]}
        output.print_json({"source": source, "dry_run": dry_run, "why": halt.reason, **document})
    elif not dry_run:
        output.say(output.console(), Text("Recorded; the agent goes on within seconds.", style="cyan"))


def _show(source: str, halt: Halt) -> None:
    console = output.console()
    output.say(console, f"{source}: {halt.reason}.")
    where = f"below {display(halt.subtree)}/" if halt.subtree else "all over the root"
    output.say(console, f"{halt.paths:,} paths would be deleted, {where}, such as:")
    for path in halt.examples:
        output.say(console, Text(f"  {display(path)}"))


def _ask(halt: Halt) -> None:
    """Raises Refused where nobody can answer, or the answer is another number."""
    asked, kept = "Consent to deletes was to be given.", "Nothing was deleted."
    if not sys.stdin.isatty():
        raise Refused("nobody can be asked here.", asked=asked, kept=kept, advice="Give --yes once you have looked.")
    answer = typer.prompt("Type the number of paths to have them deleted")
    if answer.strip().replace(",", "") != str(halt.paths):
        raise Refused("that is not their number.", asked=asked, kept=kept, advice="Look again.")
