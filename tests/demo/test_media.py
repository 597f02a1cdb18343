"""The demo's media, rendered at a small size."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("av")
pytest.importorskip("PIL")

import av
from PIL import Image

from headwater.demo import media
from headwater.demo.tree import TreePlan, TreeSize, first_tree

SMALL = TreeSize(photographs=30, clips=2, clip_bytes=300_000, clip_height=180, largest_width=300)


@pytest.fixture(scope="module")
def plan() -> TreePlan:
    return first_tree(SMALL, Random(7))


@pytest.fixture(scope="module")
def rendered(plan: TreePlan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("media")
    media.render(plan, folder)
    return folder


def digests(folder: Path) -> dict[bytes, str]:
    found = {}
    for where, _, names in os.walk(os.fsencode(folder)):
        for name in names:
            path = os.path.join(where, name)
            found[os.path.relpath(path, os.fsencode(folder))] = hashlib.sha256(Path(os.fsdecode(path)).read_bytes())
    return {path: digest.hexdigest() for path, digest in found.items()}


def test_every_planned_file_is_there_and_no_other(plan: TreePlan, rendered: Path) -> None:
    assert set(digests(rendered)) == set(plan.paths)


def test_rendering_again_gives_the_same_bytes(plan: TreePlan, rendered: Path, tmp_path: Path) -> None:
    media.render(plan, tmp_path)
    assert digests(tmp_path) == digests(rendered)


def test_photographs_and_clips_open_as_what_they_are(plan: TreePlan, rendered: Path) -> None:
    for photo in plan.photographs:
        with Image.open(rendered / os.fsdecode(photo.path)) as image:
            image.load()
            assert image.format == photo.format
    for clip in plan.clips:
        place = rendered / os.fsdecode(clip.path)
        assert place.stat().st_size >= clip.least_bytes
        with av.open(str(place)) as container:
            assert next(container.decode(video=0)).height == SMALL.clip_height


def test_duplicates_the_empty_file_and_the_link_are_real(plan: TreePlan, rendered: Path) -> None:
    found = digests(rendered)
    assert all(found[copy.path] == found[copy.of] for copy in plan.copies)
    assert hashlib.sha256(b"").hexdigest() in found.values()
    assert all((rendered / os.fsdecode(link.path)).is_symlink() for link in plan.links)


def test_a_cached_tree_is_rendered_once(tmp_path: Path) -> None:
    plan = first_tree(TreeSize(photographs=15, clips=0, largest_width=60), Random(3))
    first = media.cached(plan, tmp_path)
    made_at = first.stat().st_mtime_ns
    assert set(digests(first)) == set(plan.paths)
    assert media.cached(plan, tmp_path) == first
    assert first.stat().st_mtime_ns == made_at
    assert [place.name for place in tmp_path.iterdir()] == [first.name], "no draft is left"


def test_a_copy_keeps_bytes_times_and_links_and_leaves_the_source_alone(rendered: Path, tmp_path: Path) -> None:
    before = digests(rendered)
    report = media.copy_tree(rendered, tmp_path)
    assert report.files == len(before)
    assert digests(tmp_path) == before == digests(rendered)
    assert (tmp_path / "latest.txt").is_symlink()
    one = next(path for path in before if path.endswith(b".jpg"))
    copied, original = (os.stat(os.path.join(os.fsencode(folder), one)) for folder in (tmp_path, rendered))
    assert copied.st_mtime_ns == original.st_mtime_ns
    assert copied.st_ino != original.st_ino


def test_a_copy_stops_at_its_limit_and_says_so(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in "abc":
        (source / name).write_bytes(b"x" * 100)
    report = media.copy_tree(source, target, most_bytes=250)
    assert (report.files, report.bytes, report.over_the_limit) == (2, 200, 1)
    assert sorted(path.name for path in target.iterdir()) == ["a", "b"]


def test_a_retouched_photograph_is_another_picture_and_text_is_left_alone(plan: TreePlan, rendered: Path) -> None:
    photo = rendered / os.fsdecode(plan.photographs[0].path)
    edited = media.retouched(photo)
    assert edited is not None
    assert edited != photo.read_bytes()
    assert media.retouched(rendered / "README.txt") is None
