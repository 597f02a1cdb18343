"""The one place where errors become words: what was asked, what happened, what was kept, what to do next."""

from __future__ import annotations

import json
import os
import sys

from rich.table import Table
from rich.text import Text

from headwater.cli import output
from headwater.rules.errors import HeadwaterError

EX_SOFTWARE = 70
EX_IOERR = 74
INTERRUPTED = 130
USAGE = 2

EXIT_CODES = {
    0: "done",
    1: "not done (doctor: a check failed; verify: a difference)",
    USAGE: "the command line is wrong",
    3: "done, with exceptions that were named",
    4: "another owner is newer (fenced)",
    5: "stored bytes differ from their hash",
    65: "a record or a file is not what it should be",
    66: "what was asked for does not exist",
    69: "a server does not answer",
    EX_SOFTWARE: "a fault of headwater's own",
    73: "no room on the disk, or in the quota",
    EX_IOERR: "the system refused to read or write a file",
    75: "a temporary failure: try again",
    77: "a server refused (credentials, permissions)",
    78: "settings or topics are wrong",
    INTERRUPTED: "interrupted",
}

_PARTS = (("asked", "dim"), ("happened", "bold red"), ("kept", ""), ("next", "cyan"))


def show(error: HeadwaterError, *, as_json: bool, debug: bool) -> None:
    """Prints the error to stderr."""
    said = {"asked": error.asked, "happened": error.happened, "kept": error.kept, "next": error.advice}
    if as_json:
        facts = {name: output.plain(value) for name, value in error.facts.items()}
        document = {"error": type(error).__name__, **said, "facts": facts, "exit_code": error.exit_code}
        print(json.dumps(document, ensure_ascii=False, default=str), file=sys.stderr)
    else:
        _print({part: (_sentence(said[part]), style) for part, style in _PARTS if said[part]})
    if debug:
        output.console(errors=True).print_exception()


def _print(said: dict[str, tuple[str, str]]) -> None:
    """In two columns on a terminal; elsewhere, such as in a log, each part is one line that can be searched for."""
    console = output.console(errors=True)
    if not console.is_terminal:
        for part, (sentence, _) in said.items():
            print(f"{part:>8} {' '.join(sentence.split())}", file=sys.stderr)
        return
    lines = Table.grid(padding=(0, 1))
    lines.add_column(justify="right", style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    for part, (sentence, style) in said.items():
        lines.add_row(part, Text(sentence, style=style))
    console.print(lines)


def as_ours(error: Exception) -> HeadwaterError:
    """An exception of somebody else: of the operating system about a file, or one that no code of ours expected."""
    if isinstance(error, OSError) and error.filename is not None:
        refused = HeadwaterError(
            f"{os.fsdecode(error.filename)}: {error.strerror}",
            kept="What was done before is kept.",
            advice="Correct the path, its permissions or the space on its disk, and run the command again.",
        )
        refused.exit_code = EX_IOERR
        return refused
    fault = HeadwaterError(
        f"headwater failed with {type(error).__name__}: {error}",
        kept="What was committed before is kept.",
        advice="This is a fault of ours. Run the command again with --debug before it, and report what that prints.",
    )
    fault.exit_code = EX_SOFTWARE
    return fault


def _sentence(text: str) -> str:
    first_word = text.split(" ", 1)[0]
    is_name = not first_word.isalpha() or not first_word.islower()  # a setting or a topic keeps its spelling
    capital = text if is_name else text[0].upper() + text[1:]
    return capital if capital.endswith((".", "!", "?", ":")) else f"{capital}."
