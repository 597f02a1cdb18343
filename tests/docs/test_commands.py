"""The commands that runbooks and guides tell people to type are commands that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from headwater.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "operations.md", DOCS / "jobs.md", *sorted((DOCS / "runbooks").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_commands_and_options_that_exist(page: Path) -> None:
    for line in commands(page.read_text("utf-8")):
        assert_is_a_command(line)


def commands(text: str) -> list[str]:
    """Every `headwater …` of a page, in code spans and blocks, without comments and what follows a pipe."""
    spans = re.findall(r"`(headwater [^`]+)`", text)
    lines = re.findall(r"^ {4,}(.*)$", text, re.MULTILINE)
    lines += [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    blocks = [part for line in lines for part in re.split(r"[;|&]+", line)]
    return [*spans, *(part.strip().partition("  ")[0] for part in blocks if part.strip().startswith("headwater "))]


def assert_is_a_command(line: str) -> None:
    command: Any = typer.main.get_command(app)
    for word in line.split()[1:]:
        if word.startswith("#"):
            return
        if subcommands := getattr(command, "commands", None):
            assert word in subcommands, f"{line}: there is no {word}"
            command = subcommands[word]
        elif word.startswith("-") and not re.match(r"-\d", word):
            known = {name for parameter in command.params for name in parameter.opts}
            assert word in known, f"{line}: there is no {word}"


def test_the_check_of_commands_refuses_what_is_not_there() -> None:
    for wrong in ("headwater lags", "headwater lag --wach", "headwater dead redrve --all"):
        with pytest.raises(AssertionError, match="there is no"):
            assert_is_a_command(wrong)
