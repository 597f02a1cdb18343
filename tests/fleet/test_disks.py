"""The benchmark's own verdict on copies, and its poison."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
from fleet.disks import poison, sha256, wrong_bytes

MIB = 1024 * 1024


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source \n.bin"
    path.write_bytes(random.Random(1).randbytes(3 * MIB + 17))
    return path


def test_hashes_are_those_of_another_program(source: Path) -> None:
    assert sha256([source]) == {source: hashlib.sha256(source.read_bytes()).hexdigest()}


def test_right_copies_have_no_wrong_bytes_and_missing_ones_only_wrong_ones(source: Path, tmp_path: Path) -> None:
    right = tmp_path / "right"
    right.write_bytes(source.read_bytes())
    assert wrong_bytes(source, [right, right]) == 0
    assert wrong_bytes(source, [right, tmp_path / "missing"]) == 3 * MIB + 17


def test_every_wrong_byte_counts(source: Path, tmp_path: Path) -> None:
    content = bytearray(source.read_bytes())
    content[0] ^= 1
    content[MIB] ^= 255
    spoiled, short = tmp_path / "spoiled", tmp_path / "short"
    spoiled.write_bytes(content)
    short.write_bytes(source.read_bytes()[:-5])
    assert wrong_bytes(source, [spoiled]) == 2
    assert wrong_bytes(source, [short]) == 5


def test_poison_spoils_each_chunk_of_what_is_under_way_and_nothing_else(source: Path, tmp_path: Path) -> None:
    into = tmp_path / "into"
    (into / ".headwater-cast").mkdir(parents=True)
    under_way, done = into / ".headwater-cast" / "name.7.partial", into / "done.bin"
    for path in (under_way, done):
        path.write_bytes(source.read_bytes())

    assert poison(into) == 3

    assert done.read_bytes() == source.read_bytes()
    differing = [
        place
        for place, (one, other) in enumerate(zip(source.read_bytes(), under_way.read_bytes(), strict=True))
        if one != other
    ]
    assert [place // MIB for place in differing] == [0, 1, 2]
