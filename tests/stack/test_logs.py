from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.errors import NotFound
from headwater.stack import logs
from headwater.stack.processes import log_path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = log_path("kafka", tmp_path)
    path.parent.mkdir()
    return path


def test_tail_gives_the_last_lines_oldest_first(tmp_path: Path, log: Path) -> None:
    log.write_text("one\ntwo\nthree\n", encoding="utf-8")
    assert logs.tail("kafka", tmp_path, 2) == ["two", "three"]


@given(lines=st.lists(st.text("abc é", max_size=20), max_size=50), wanted=st.integers(0, 60))
def test_tail_is_the_end_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], wanted: int
) -> None:
    home = tmp_path_factory.mktemp("home")
    path = log_path("kafka", home)
    path.parent.mkdir()
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert logs.tail("kafka", home, wanted) == (lines[-wanted:] if wanted else [])


def test_tail_of_a_log_longer_than_one_block(tmp_path: Path, log: Path) -> None:
    log.write_text("".join(f"line {number}\n" for number in range(40_000)), encoding="utf-8")
    assert logs.tail("kafka", tmp_path, 20_000) == [f"line {number}" for number in range(20_000, 40_000)]


def test_follow_gives_what_is_written_later_whole_lines_only(tmp_path: Path, log: Path) -> None:
    log.write_text("old\nlast\n", encoding="utf-8")
    later = iter(["ne", "w\nnext\n", "unfinished"])
    ended = False

    def write_more(_seconds: float) -> None:
        nonlocal ended
        more = next(later, None)
        if more is None:
            ended = True
        else:
            with log.open("a", encoding="utf-8") as file:
                file.write(more)

    assert list(logs.follow("kafka", tmp_path, 1, until=lambda: ended, sleep=write_more)) == ["last", "new", "next"]


def test_follow_starts_again_when_the_log_was_cut(tmp_path: Path, log: Path) -> None:
    log.write_text("a long first line\n", encoding="utf-8")
    steps = iter([lambda: log.write_text("cut\n", encoding="utf-8")])
    ended = False

    def cut(_seconds: float) -> None:
        nonlocal ended
        change = next(steps, None)
        if change is None:
            ended = True
        else:
            change()

    assert list(logs.follow("kafka", tmp_path, 0, until=lambda: ended, sleep=cut)) == ["cut"]


def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path: Path, log: Path) -> None:
    log.touch()
    with pytest.raises(NotFound, match="kafka"):
        logs.tail("kaffka", tmp_path)
