"""The demo's plan: the same for the same seed, with the mix that the demo promises."""

from __future__ import annotations

from random import Random

from headwater.demo.tree import FULL, MIB, arrivals_tree, first_tree


def test_when_the_seed_is_the_same_the_plan_is_the_same() -> None:
    assert first_tree(FULL, Random(1)) == first_tree(FULL, Random(1))
    assert first_tree(FULL, Random(1)) != first_tree(FULL, Random(2))


def test_no_two_files_of_the_demo_share_a_path() -> None:
    first, arrivals = first_tree(FULL, Random(1)), arrivals_tree(FULL, Random(2))
    paths = [*first.paths, *arrivals.paths]
    assert len(set(paths)) == len(paths)


def test_the_mix_holds_what_the_demo_promises() -> None:
    plan = first_tree(FULL, Random(1))
    assert len(plan.photographs) >= 300
    assert {photo.format for photo in plan.photographs} == {"JPEG", "PNG", "WEBP"}
    assert len(plan.clips) >= 2
    assert all(clip.least_bytes > 64 * MIB for clip in plan.clips)
    assert plan.copies
    assert [note for note in plan.notes if not note.text]
    assert plan.links
    assert max(path.count(b"/") for path in plan.paths) >= 4


def test_the_odd_names_are_odd_and_legal() -> None:
    names = [path.rpartition(b"/")[2] for path in first_tree(FULL, Random(1)).paths]
    assert any(b"\n" in name for name in names)
    assert any(name != name.strip() for name in names)
    assert any(name.startswith(b"-") for name in names)
    assert any(_is_not_utf8(name) for name in names)
    assert all(0 < len(name) <= 255 and b"\0" not in name for name in names)


def _is_not_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return True
    return False
