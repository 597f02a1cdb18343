"""How a cast is shown, and which file of a folder the demo casts."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from headwater.demo import cast
from headwater.demo.cast_view import picture, plain, share
from headwater.rules.cast.chunks import Chunks
from headwater.schemas.cast_history import CastHistory
from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import CastRack

MIB = 1024 * 1024


@pytest.fixture
def history() -> CastHistory:
    """Twenty chunks; one rack well on its way, and hosts without a label, two of them in trouble."""
    manifest = Manifest(
        name="reel", epoch=8, file_name="reel.mp4", chunks=Chunks(20 * MIB, MIB), mtime_ns=0, origin="demo/8",
        targets=(), expires_us=2**60,
    )  # fmt: skip
    history = CastHistory(manifest, 0)
    history.racks["rack-a"] = rack("rack-a", hosts=4, complete=1, least=5, median=10, most=20, rate=3 * MIB)
    history.racks[""] = rack("", hosts=3, complete=0, least=0, median=2, most=5, slow=("b4",), silent=("b2",))
    return history


def rack(
    name: str,
    *,
    hosts: int,
    complete: int,
    least: int,
    median: int,
    most: int,
    rate: int = 0,
    slow: tuple[str, ...] = (),
    silent: tuple[str, ...] = (),
) -> CastRack:
    return CastRack(
        epoch=8, rack=name, at_us=1, view=1, hosts=hosts, complete=complete, installed=0, least=least, median=median,
        most=most, bits=b"", bytes_per_second=rate, slow=slow, silent=silent,
    )  # fmt: skip


def test_without_a_terminal_a_line_says_how_far_each_rack_is_and_who_is_in_trouble(history: CastHistory) -> None:
    assert plain(history) == (
        "(no label) 10% (0% to 25%), 0 B/s, 0 of 3 whole, silent or slow: b2 b4 · "
        "rack-a 50% (25% to 100%), 3.0 MiB/s, 1 of 4 whole"
    )


def test_on_a_terminal_each_rack_has_a_bar(history: CastHistory) -> None:
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=116).print(picture(history))
    rack_a = next(line for line in out.getvalue().splitlines() if "rack-a" in line)
    assert all(word in rack_a for word in ("━", "25%", "50%", "100%", "3.0", "1/4"))
    assert "b2 b4" in out.getvalue()


def test_a_cast_is_as_far_as_its_racks_medians(history: CastHistory) -> None:
    assert share(history) == pytest.approx(0.3)
    assert share(CastHistory(history.manifest, 0)) == 0


def test_the_largest_file_with_a_plain_name_is_cast(tmp_path: Path) -> None:
    (tmp_path / "film").mkdir()
    for name, length in (("film/reel.mp4", 300), ("film/short.mp4", 200), ("odd\nname", 400), ("naïve.mp4", 500)):
        (tmp_path / name).write_bytes(bytes(length))
    (tmp_path / "link").symlink_to("film")
    assert cast.chosen(tmp_path) == tmp_path / "film/reel.mp4"


def test_of_files_that_are_all_too_large_the_smallest_is_cast(tmp_path: Path) -> None:
    for name, length in (("a", 3), ("b", 2), ("c", 5)):
        with (tmp_path / name).open("wb") as file:
            os.truncate(file.fileno(), cast.LARGEST_BYTES + length)
    assert cast.chosen(tmp_path) == tmp_path / "b"
    (tmp_path / "d").write_bytes(b"fits")
    assert cast.chosen(tmp_path) == tmp_path / "d"
