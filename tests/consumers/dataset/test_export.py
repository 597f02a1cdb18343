"""Taking a version out: right bytes, true names, resumable, and nothing outside the folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.export import export
from headwater.rules.errors import Refused
from headwater.rules.identity import content_hash, object_key


def tree(root: Path) -> dict[bytes, bytes]:
    """Path to content, a link's content being its target."""
    found = {}
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, os.fsencode(root))
            found[relative] = (
                b"-> " + os.readlink(path) if os.path.islink(path) else Path(os.fsdecode(path)).read_bytes()
            )
    return found


@pytest.fixture
def committed(world: Any) -> Any:
    world.write(b"a", b"one", mode=0o640, mtime_ns=1_234_567_890_123_456_789)
    world.write(b"deep/er/b", b"two" * 100_000)
    world.write(b"empty", b"", mode=0o444)
    world.write(b"odd\xff\n", b"odd")
    world.write(b"n" * 200 + b"/" + b"m" * 200 + b"/" + b"o" * 200 + b"/" + b"p" * 200 + b"/" + b"q" * 250, b"long")
    world.link(b"link", b"deep/er/b")
    world.link(b"dangling", b"\xff/nowhere")
    world.commit()
    return world


def expected(world: Any) -> dict[bytes, bytes]:
    files = {b"films/" + path: data for path, data in world.tree.items()}
    return files | {b"films/link": b"-> deep/er/b", b"films/dangling": b"-> \xff/nowhere"}


def test_a_version_comes_out_as_it_was(committed: Any, dataset: Dataset, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []

    done = export(dataset, "v1", tmp_path / "out", progress=lambda *now: steps.append(now))

    assert done.is_whole, done.problems
    assert (done.written, done.kept, done.links, done.bytes_written) == (5, 0, 2, 3 + 300_000 + 3 + 4)
    assert steps[-1] == (5, done.bytes_written)
    assert tree(tmp_path / "out") == expected(committed)
    described = (tmp_path / "out/films/a").stat()
    assert (described.st_mode & 0o7777, described.st_mtime_ns) == (0o640, 1_234_567_890_123_456_789)


def test_what_is_right_is_kept_and_the_rest_is_mended(committed: Any, dataset: Dataset, tmp_path: Path) -> None:
    export(dataset, "v1", tmp_path)
    untouched = (tmp_path / "films/deep/er/b").stat()
    (tmp_path / "films/a").chmod(0o600)
    (tmp_path / "films/empty").unlink()
    (tmp_path / "films/link").unlink()
    (tmp_path / "films/link").symlink_to("elsewhere")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/films/odd\xff\n")).write_bytes(b"odx")
    (tmp_path / "films/own").write_bytes(b"somebody's own")

    done = export(dataset, "v1", tmp_path)

    assert (done.written, done.kept, done.problems) == (2, 3, ())
    assert tree(tmp_path) == expected(committed) | {b"films/own": b"somebody's own"}
    assert (tmp_path / "films/deep/er/b").stat().st_ino == untouched.st_ino
    assert (tmp_path / "films/a").stat().st_mode & 0o7777 == 0o640


def test_an_export_that_died_goes_on(
    committed: Any, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(Refused, match=r"No space left.*run the same command again"):
            export(dataset, "v1", tmp_path)
    assert [name for name in tree(tmp_path) if not os.path.basename(name).startswith(b".headwater-")] == []

    assert export(dataset, "v1", tmp_path).is_whole

    assert tree(tmp_path) == expected(committed)


def test_spoiled_bytes_never_reach_their_place(committed: Any, dataset: Dataset, tmp_path: Path) -> None:
    committed.objects.put(object_key(content_hash(b"one"), 1), b"onE")

    done = export(dataset, "v1", tmp_path)

    (problem,) = done.problems
    assert "films/a" in problem
    assert set(tree(tmp_path)) == set(expected(committed)) - {b"films/a"}


@pytest.mark.parametrize("path", [b"../outside", b"/etc/outside", b"a/../../outside", b"a//b", b"./a", b"a\0b"])
def test_a_path_that_leaves_the_folder_is_refused(world: Any, dataset: Dataset, tmp_path: Path, path: bytes) -> None:
    world.write(path, b"escape")
    world.commit()

    done = export(dataset, "v1", tmp_path / "in" / "out")

    assert len(done.problems) == 1
    assert "would leave its folder" in done.problems[0]
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_nothing_is_written_through_a_link(world: Any, dataset: Dataset, tmp_path: Path) -> None:
    world.write(b"deep/file", b"inside")
    world.commit()
    (tmp_path / "outside").mkdir()
    (tmp_path / "out/films").mkdir(parents=True)
    (tmp_path / "out/films/deep").symlink_to(tmp_path / "outside")

    done = export(dataset, "v1", tmp_path / "out")

    assert "stands in its way" in done.problems[0]
    assert list((tmp_path / "outside").iterdir()) == []


def test_of_a_file_and_a_folder_of_one_name_the_newer_comes_out(world: Any, dataset: Dataset, tmp_path: Path) -> None:
    """The deletes below a folder that became a file may come a version later."""
    world.write(b"a/below", b"older")
    world.write(b"a", b"newer")
    world.write(b"b", b"older")
    world.write(b"b/below", b"newer")
    world.commit()

    done = export(dataset, "v1", tmp_path)

    assert tree(tmp_path) == {b"films/a": b"newer", b"films/b/below": b"newer"}
    assert done.shadowed == ("films/a/below", "films/b")
    assert done.is_whole


@pytest.mark.usefixtures("committed")
def test_a_part_of_a_version_comes_out(dataset: Dataset, tmp_path: Path) -> None:
    export(dataset, "v1", tmp_path, prefix="films/deep/")

    assert tree(tmp_path) == {b"films/deep/er/b": b"two" * 100_000}
