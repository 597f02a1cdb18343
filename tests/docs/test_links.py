"""Links in the documents lead where they say; one that names code points at the line that defines it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s]+)(?:#L(?P<line>\d+))?\)")


def links() -> Iterator[tuple[Path, str, str, int | None]]:
    for page in (HOME / "README.md", *sorted((HOME / "docs").rglob("*.md"))):
        for link in LINK.finditer(page.read_text("utf-8")):
            if "://" not in link["target"]:
                yield page, link["text"], link["target"], int(link["line"]) if link["line"] else None


@pytest.mark.parametrize(
    ("page", "text", "target", "line"),
    [pytest.param(*link, id=f"{link[0].name}: {link[1]}") for link in links()],
)
def test_a_link_leads_where_it_says(page: Path, text: str, target: str, line: int | None) -> None:
    file = (page.parent / target).resolve()
    assert file.exists(), f"{page.name} links to {target}, which does not exist"
    assert file.is_relative_to(HOME)
    if line is None:
        return
    name = text.strip("`").rpartition(".")[2].removesuffix("()")
    defines = re.compile(rf"\b(def|class|CREATE TABLE|UNIQUE INDEX) {re.escape(name)}\b|^{re.escape(name)}\b")
    lines = file.read_text("utf-8").splitlines()
    actual = [number for number, content in enumerate(lines, 1) if defines.search(content)]
    assert line in actual, f"{page.name}: {name} stands at {target}#L{actual[0] if actual else '?'}, not #L{line}"
