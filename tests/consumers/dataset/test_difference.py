"""What differs between two versions, whichever is the older."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.difference import Kind, diff


@pytest.fixture
def three_versions(world: Any) -> None:
    world.write(b"edited", b"before")
    world.write(b"gone", b"gone")
    world.write(b"moved", b"moved bytes")
    world.write(b"twin/1", b"twins")
    world.write(b"twin/2", b"twins")
    world.write(b"same", b"same")
    world.write(b"touched", b"touched", mode=0o644)
    world.link(b"link", b"here")
    world.commit()
    world.write(b"edited", b"in between")
    world.write(b"passing", b"passing")
    world.commit()
    world.write(b"edited", b"afterwards")
    world.delete(b"gone")
    world.delete(b"passing")
    world.rename(b"moved", b"there/moved")
    world.rename(b"twin/1", b"other/1")
    world.write(b"touched", b"touched", mode=0o600)
    world.link(b"link", b"elsewhere")
    world.write(b"new", b"new")
    world.commit()


def summary(dataset: Dataset, left: str, right: str) -> list[tuple[Kind, bytes | None, bytes | None]]:
    return [
        (one.kind, one.before.path if one.before else None, one.after.path if one.after else None)
        for one in diff(dataset, left, right)
    ]


@pytest.mark.usefixtures("three_versions")
def test_differences_across_versions(dataset: Dataset) -> None:
    assert summary(dataset, "1", "3") == [
        (Kind.changed, b"edited", b"edited"),
        (Kind.removed, b"gone", None),
        (Kind.changed, b"link", b"link"),
        (Kind.added, None, b"new"),
        (Kind.renamed, b"twin/1", b"other/1"),
        (Kind.renamed, b"moved", b"there/moved"),
        (Kind.metadata, b"touched", b"touched"),
    ]
    (edited,) = [one for one in diff(dataset, "1", "3") if one.place == "films/edited"]
    assert edited.before is not None
    assert edited.after is not None
    assert (edited.before.size, edited.after.size) == (len(b"before"), len(b"afterwards"))
    assert summary(dataset, "3", "1") == [
        (Kind.changed, b"edited", b"edited"),
        (Kind.added, None, b"gone"),
        (Kind.changed, b"link", b"link"),
        (Kind.renamed, b"there/moved", b"moved"),
        (Kind.removed, b"new", None),
        (Kind.metadata, b"touched", b"touched"),
        (Kind.renamed, b"other/1", b"twin/1"),
    ]
    assert summary(dataset, "1", "2") == [
        (Kind.changed, b"edited", b"edited"),
        (Kind.added, None, b"passing"),
    ]
    assert summary(dataset, "2", "2") == []
