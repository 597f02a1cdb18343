"""Links in the documents lead where they say; one whose text is code leads to the file that defines that name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s]*)(?P<place>#[^)\s]+)?\)")
CODE = re.compile(r"`(?:\w+\.)*(?P<name>\w+)(?:\(\))?`")


def links() -> Iterator[tuple[Path, str, str, str]]:
    for page in (HOME / "README.md", *sorted((HOME / "docs").rglob("*.md"))):
        for link in LINK.finditer(page.read_text("utf-8")):
            if "://" not in link["target"]:
                yield page, link["text"], link["target"], link["place"] or ""


@pytest.mark.parametrize(
    ("page", "text", "target", "place"),
    [pytest.param(*link, id=f"{link[0].name}: {link[1]}") for link in links()],
)
def test_a_link_leads_where_it_says(page: Path, text: str, target: str, place: str) -> None:
    file = (page.parent / target).resolve() if target else page
    assert file.exists(), f"{page.name} links to {target}, which does not exist"
    assert file.is_relative_to(HOME)
    if place:
        assert file.suffix == ".md", f"{page.name}: lines move, so {text} is linked by its file, without {place}"
        headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
        assert place[1:] in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    code = CODE.fullmatch(text)
    if code and file.suffix in {".py", ".sql"}:
        name = re.escape(code["name"])
        defines = re.compile(rf"\b(def|class|CREATE TABLE|UNIQUE INDEX) {name}\b|^{name}\b", re.MULTILINE)
        assert defines.search(file.read_text("utf-8")), f"{page.name}: {target} does not define {text}"
