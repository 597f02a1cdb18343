"""The demo's changes: each does what its sentence says, to files that no other change touches."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

pytest.importorskip("av")

from headwater.demo import edits
from headwater.demo.edits import Picker
from headwater.demo.trees import Tree, compare, tree_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "media"
    for number in range(60):
        place = root / f"album {number // 10}" / f"{number:02d}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(Random(number).randbytes(1000))
    (root / "empty").touch()
    (root / "link").symlink_to("empty")
    return root


@pytest.fixture
def picker(folder: Path) -> Picker:
    return Picker(folder, Random(5))


def test_an_edit_changes_bytes_and_no_path(folder: Path, picker: Picker) -> None:
    before = tree_of(folder)
    said = edits.retouch(picker, 3)
    differences = compare(before, tree_of(folder))
    assert (len(said), len(differences.unequal), differences.missing, differences.surplus) == (3, 3, (), ())


def test_an_atomic_save_changes_bytes_and_leaves_no_draft(folder: Path, picker: Picker) -> None:
    before = tree_of(folder)
    edits.save_atomically(picker, 2)
    differences = compare(before, tree_of(folder))
    assert (len(differences.unequal), differences.missing, differences.surplus) == (2, (), ())


def test_a_rename_moves_a_path_and_keeps_its_bytes(folder: Path, picker: Picker) -> None:
    before = tree_of(folder)
    edits.rename_files(picker, 4)
    after = tree_of(folder)
    differences = compare(before, after)
    assert len(differences.missing) == len(differences.surplus) == 4
    assert _moved_content(before, after)


def test_a_renamed_folder_takes_all_its_files_along(folder: Path, picker: Picker) -> None:
    before = tree_of(folder)
    said = edits.rename_a_folder(picker)
    after = tree_of(folder)
    assert "10 files" in said[0]
    assert len(compare(before, after).missing) == 10
    assert _moved_content(before, after)


def test_deletes_stay_below_the_share_that_would_need_consent(folder: Path, picker: Picker) -> None:
    before = tree_of(folder)
    edits.delete(picker, 50)
    differences = compare(before, tree_of(folder))
    assert 0 < len(differences.missing) <= len(before) * edits.LARGEST_DELETED_SHARE
    assert (differences.surplus, differences.unequal) == ((), ())


def test_no_two_changes_meet_in_one_file(folder: Path, picker: Picker) -> None:
    before = tree_of(folder)
    edits.rename_a_folder(picker)
    edits.retouch(picker, 5)
    edits.save_atomically(picker, 5)
    edits.rename_files(picker, 5)
    edits.delete(picker, 2)
    differences = compare(before, tree_of(folder))
    assert len(differences.unequal) == 10
    assert len(differences.missing) == 10 + 5 + 2
    assert len(differences.surplus) == 10 + 5


def test_a_folder_with_too_little_to_change_is_left_in_peace(tmp_path: Path) -> None:
    (tmp_path / "only.txt").write_text("one")
    picker = Picker(tmp_path, Random(1))
    assert edits.delete(picker, 10) == []
    assert edits.rename_a_folder(picker) == []
    assert edits.overwrite_in_the_middle(picker) == []


def _moved_content(before: Tree, after: Tree) -> bool:
    differences = compare(before, after)
    return sorted(before[path] for path in differences.missing) == sorted(after[path] for path in differences.surplus)
