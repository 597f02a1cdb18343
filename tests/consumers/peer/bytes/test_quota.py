"""What makes room for a new cast, and what does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.install import Target, installed
from headwater.consumers.peer.bytes.quota import make_room
from headwater.rules.errors import NoSpace

MIB = 1024 * 1024
COMING = Target("new", 99, "new.bin", 2 * MIB)


def install(fleet: Any, folder: CastFolder, name: str, epoch: int) -> None:
    content = fleet.content(2 * MIB, name=name)
    partial = content.fill(content.partial(folder, epoch, name, f"{name}.bin"))
    partial.install(content.root)
    partial.close()


@pytest.fixture
def folder(fleet: Any) -> CastFolder:
    """Three casts of 2 MiB, the oldest of them named first."""
    made: CastFolder = fleet.into()
    for epoch, name in enumerate(["first", "second", "third"], 10):
        install(fleet, made, name, epoch)
    return made


def files(folder: CastFolder) -> set[str]:
    return {path.name for path in Path(folder.path).iterdir() if path.is_file()}


def test_without_a_quota_nothing_goes(fleet: Any, folder: CastFolder) -> None:
    assert make_room(folder, fleet.config, COMING) == []
    assert files(folder) == {"first.bin", "second.bin", "third.bin"}


def test_the_oldest_go_and_no_more_than_needed(fleet: Any, folder: CastFolder) -> None:
    config = replace(fleet.config, quota_bytes=6 * MIB + MIB // 2)

    assert make_room(folder, config, COMING) == ["first"]

    assert files(folder) == {"second.bin", "third.bin"}
    assert installed(folder, "first") is None


def test_what_is_pinned_open_or_served_stays(fleet: Any, folder: CastFolder) -> None:
    served = fleet.content(2 * MIB, name="served")
    serving = served.fill(served.partial(folder, 9, "served", "served.bin"))
    serving.install(served.root)
    config = replace(fleet.config, quota_bytes=8 * MIB + MIB // 2, pinned=("first",))

    with (folder.path / "second.bin").open("rb"):
        assert make_room(folder, config, COMING) == ["third"]

    assert files(folder) == {"served.bin", "first.bin", "second.bin"}


def test_where_all_is_needed_nothing_goes_and_the_refusal_says_how_much(fleet: Any, folder: CastFolder) -> None:
    config = replace(fleet.config, quota_bytes=6 * MIB, pinned=("first", "second", "third"))

    with pytest.raises(NoSpace) as refused:
        make_room(folder, config, COMING)

    assert refused.value.facts["needed"] == 2 * MIB
    assert refused.value.facts["free"] < MIB
    assert files(folder) == {"first.bin", "second.bin", "third.bin"}


def test_newer_casts_do_not_make_room_for_older_ones(fleet: Any, folder: CastFolder) -> None:
    config = replace(fleet.config, quota_bytes=6 * MIB)

    with pytest.raises(NoSpace):
        make_room(folder, config, replace(COMING, epoch=5))

    assert len(files(folder)) == 3


def test_a_partial_file_that_nobody_receives_any_more_goes_too(fleet: Any, folder: CastFolder) -> None:
    content = fleet.content(2 * MIB, name="stale")
    content.partial(folder, 3, "stale", "stale.bin").close()
    config = replace(fleet.config, quota_bytes=8 * MIB + MIB // 2)

    assert make_room(folder, config, COMING) == ["stale"]

    assert not (folder.path / ".headwater-cast/stale.3.partial").exists()


def test_a_cast_that_goes_on_needs_no_room_for_what_it_has(fleet: Any, folder: CastFolder) -> None:
    content = fleet.content(2 * MIB, name="going on")
    content.partial(folder, COMING.epoch, COMING.name, COMING.file_name).close()
    config = replace(fleet.config, quota_bytes=8 * MIB + MIB // 2)

    assert make_room(folder, config, COMING) == []
