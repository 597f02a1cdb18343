"""A file that is being received: its space, its names, its restarts, its bounds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.partial import PartialFile
from headwater.consumers.peer.bytes.store import NoSecondCopy
from headwater.rules.cast.chunks import Chunks
from headwater.rules.errors import BadRecord, BadSettings, Corrupt, NoSpace, NotFound, Refused, Torn

MIB = 1024 * 1024
GIB = 1024 * MIB
EPOCH = 7


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_all_space_is_taken_before_the_first_byte(fleet: Any) -> None:
    content = fleet.content(5 * MIB)

    content.partial(fleet.into())

    found = (fleet.folder / "into/.headwater-cast/weights.7.partial").stat()
    assert found.st_size == 5 * MIB
    assert found.st_blocks * 512 >= 5 * MIB


def test_a_disk_without_room_refuses_early_and_says_how_much(fleet: Any) -> None:
    there = os.statvfs(fleet.folder)
    wanted = there.f_bavail * there.f_frsize + 1024 * GIB

    with pytest.raises(NoSpace) as refused:
        PartialFile(fleet.into(), "huge", EPOCH, "huge.bin", Chunks(min(wanted, 65536 * 64 * MIB), 64 * MIB))

    assert refused.value.facts["needed"] > refused.value.facts["free"] > 0
    assert names(fleet.folder / "into") == {".headwater-cast"}


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 7])
def test_files_of_any_size_come_out_as_they_were(fleet: Any, size: int) -> None:
    content = fleet.content(size)

    content.fill(content.partial(fleet.into())).install(content.root)

    assert (fleet.folder / "into/w.bin").read_bytes() == content.data


@pytest.mark.parametrize("chunk_bytes", [1, MIB - 1, 3 * MIB, 128 * MIB, 256 * MIB, 2048 * MIB, 0, -MIB])
def test_absurd_chunk_sizes_are_refused(chunk_bytes: int) -> None:
    with pytest.raises(BadSettings):
        Chunks(10 * MIB, chunk_bytes)


@pytest.mark.parametrize("name", ["../out", "/etc/x", "a/b", ".", "..", "", "n" * 256, "nul\0", ".headwater-cast"])
def test_a_name_that_leads_elsewhere_is_refused(fleet: Any, name: str) -> None:
    content = fleet.content(1)
    folder = fleet.into()

    for cast, file in ((name, "w.bin"), ("weights", name)):
        with pytest.raises(Refused):
            PartialFile(folder, cast, EPOCH, file, content.chunks)

    assert names(fleet.folder / "into") == {".headwater-cast"}


def test_links_in_the_way_are_not_followed(fleet: Any) -> None:
    content = fleet.content(MIB)
    outside = fleet.folder / "outside"
    outside.write_bytes(b"precious")
    folder = fleet.into()
    kept = fleet.folder / "into/.headwater-cast"

    os.symlink(outside, kept / "weights.7.partial")
    with pytest.raises(Refused):
        content.partial(folder)
    (kept / "weights.7.partial").unlink()
    os.link(outside, kept / "weights.7.partial")
    with pytest.raises(Refused):
        content.partial(folder)
    (kept / "weights.7.partial").unlink()
    os.symlink(outside, fleet.folder / "into/w.bin")
    content.fill(content.partial(folder)).install(content.root)

    assert outside.read_bytes() == b"precious"
    assert not (fleet.folder / "into/w.bin").is_symlink()
    assert (fleet.folder / "into/w.bin").read_bytes() == content.data


def test_a_work_folder_that_is_a_link_is_refused(fleet: Any) -> None:
    (fleet.folder / "into").mkdir()
    (fleet.folder / "elsewhere").mkdir()
    os.symlink(fleet.folder / "elsewhere", fleet.folder / "into/.headwater-cast")

    with pytest.raises(Refused):
        CastFolder(fleet.folder / "into")


def test_after_a_restart_only_what_was_hashed_again_is_here(fleet: Any) -> None:
    content = fleet.content(6 * MIB)
    folder = fleet.into()
    before = content.partial(folder)
    for chunk in (0, 2, 5):
        content.give(before, chunk)
    half = before.begin(3)
    half.write(memoryview(content.data[3 * MIB : 3 * MIB + MIB // 2]))
    half.close()
    before.close()
    with (fleet.folder / "into/.headwater-cast/weights.7.partial").open("r+b") as file:
        file.seek(2 * MIB + 99)
        file.write(b"!")

    after = content.partial(folder)

    assert not after.had().any()
    assert after.left_over() == [0, 2, 3, 5]
    assert [after.rehash(chunk) for chunk in after.left_over()] == [True, False, False, True]
    assert after.had().tolist() == [True, False, False, False, False, True]
    content.fill(after).install(content.root)
    assert (fleet.folder / "into/w.bin").read_bytes() == content.data


def test_two_processes_do_not_receive_one_cast_into_one_folder(fleet: Any) -> None:
    content = fleet.content(MIB)
    content.partial(fleet.into())

    with pytest.raises(Refused, match="another process"):
        content.partial(CastFolder(fleet.folder / "into"))


def test_hashes_that_contradict_each_other_are_refused(fleet: Any) -> None:
    content = fleet.content(3 * MIB)
    partial = content.partial(fleet.into())

    partial.learn(1, content.hashes[32:64])
    with pytest.raises(BadRecord):
        partial.learn(1, bytes(32))
    with pytest.raises(BadRecord):
        partial.learn(3, bytes(32))
    with pytest.raises(BadRecord):
        partial.learn(0, bytes(33))
    assert content.give(partial, 1)


def test_a_wrong_root_installs_nothing(fleet: Any) -> None:
    content = fleet.content(2 * MIB)
    partial = content.fill(content.partial(fleet.into()))

    with pytest.raises(Corrupt):
        partial.install(bytes(32))

    assert not (fleet.folder / "into/w.bin").exists()


def test_a_missing_chunk_installs_nothing_and_is_named(fleet: Any) -> None:
    content = fleet.content(3 * MIB)
    partial = content.partial(fleet.into())
    content.give(partial, 0)

    with pytest.raises(Corrupt) as refused:
        partial.install(content.root)

    assert refused.value.facts["missing"] == [1, 2]
    assert not (fleet.folder / "into/w.bin").exists()


def test_an_installed_file_that_somebody_changes_is_served_no_more(fleet: Any) -> None:
    content = fleet.content(MIB)
    partial = content.fill(content.partial(fleet.into()))
    partial.install(content.root)
    os.close(partial.serve(0)[0])

    with (fleet.folder / "into/w.bin").open("r+b") as file:
        file.write(b"mine now")
    os.utime(fleet.folder / "into/w.bin", ns=(1, 1))

    with pytest.raises(Torn):
        partial.serve(0)


def test_what_was_discarded_leaves_nothing_and_is_not_served(fleet: Any) -> None:
    content = fleet.content(MIB)
    partial = content.fill(content.partial(fleet.into()))

    partial.discard()

    assert names(fleet.folder / "into") == {".headwater-cast"}
    with pytest.raises(NotFound):
        partial.serve(0)


def test_a_source_that_changes_is_served_no_more(fleet: Any) -> None:
    content = fleet.content(2 * MIB)
    seed = content.seed()
    os.close(seed.serve(1)[0])

    with content.path.open("r+b") as file:
        file.write(b"other")
    os.utime(content.path, ns=(1, 1))

    with pytest.raises(Torn):
        seed.serve(1)
    with pytest.raises(Torn):
        seed.unchanged()


def test_a_source_serves_what_the_manifest_has_said(fleet: Any) -> None:
    content = fleet.content(2 * MIB)
    seed = type(content.seed())(content.path, content.chunks)

    with pytest.raises(NotFound):
        seed.serve(0)
    seed.learn(0, content.hashes[:32])

    assert seed.had().tolist() == [True, False]
    os.close(seed.serve(0)[0])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 8 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting needs root")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_on_a_disk_that_holds_the_file_only_a_duplicate_fails_alone(fleet: Any, small_disk: Path) -> None:
    content = fleet.content(6 * MIB)
    folder = CastFolder(small_disk / "into")
    partial = content.partial(folder)
    (small_disk / "other").write_bytes(bytes(MIB + MIB // 2))
    first, duplicate = partial.begin(0), partial.begin(0)

    with pytest.raises(NoSecondCopy):
        duplicate.write(memoryview(content.data[:MIB]))
    duplicate.close()
    first.write(memoryview(content.data[:MIB]))
    assert first.finish()
    first.close()
    for chunk in range(1, 6):
        assert content.give(partial, chunk)
    partial.install(content.root)

    assert (small_disk / "into/w.bin").read_bytes() == content.data
    partial.close()
    folder.close()


def test_a_disk_that_holds_the_smaller_file_only(small_disk: Path) -> None:
    folder = CastFolder(small_disk / "into")
    (small_disk / "other").write_bytes(bytes(4 * MIB))

    with pytest.raises(NoSpace):
        PartialFile(folder, "weights", EPOCH, "w.bin", Chunks(5 * MIB, MIB))
    PartialFile(folder, "weights", EPOCH, "w.bin", Chunks(3 * MIB, MIB)).discard()

    assert names(small_disk / "into") == {".headwater-cast"}
    folder.close()
