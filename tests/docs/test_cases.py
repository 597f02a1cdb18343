"""Every case has its row, and every test that a row names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
PAGE = (HOME / "docs/cases.md").read_text("utf-8")
NAMED = re.compile(r"`(tests/[^`:]+\.py)::(\w+)`")


def rows(section: str) -> dict[int, str]:
    """The numbered rows below a heading."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (\d+) \|(.*)$", text, re.MULTILINE)
    assert len({number for number, _ in found}) == len(found), "a case has two rows"
    return {int(number): row for number, row in found}


def functions(path: str) -> set[str]:
    module = ast.parse((HOME / path).read_text("utf-8"))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(
    ("section", "cases", "later"),
    [
        ("Tailing, upload, verification, commit", 29, []),
        ("Streams", 15, []),
        ("Broadcast", 19, []),
        ("Generation jobs", 20, [11, 14, 15]),
    ],
)
def test_no_case_is_missing_and_each_has_a_test_or_says_what_it_waits_for(
    section: str, cases: int, later: list[int]
) -> None:
    found = rows(section)
    assert sorted(found) == list(range(1, cases + 1))
    assert [number for number, row in found.items() if not NAMED.search(row)] == later
    assert all("later, with " in found[number] for number in later)


def test_every_test_that_is_named_exists() -> None:
    named = set(NAMED.findall(PAGE))
    assert len(named) > 40
    there = {path: functions(path) for path, _ in named}
    assert [f"{path}::{name}" for path, name in sorted(named) if name not in there[path]] == []


def test_nothing_that_looks_like_a_test_escapes_the_check() -> None:
    """A name in another spelling would not be looked for."""
    assert PAGE.count("::") == len(NAMED.findall(PAGE))
