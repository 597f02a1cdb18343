"""Which names a folder takes for one is asked of the folder; an export that would mix them writes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.consumers.dataset.dataset import Dataset
from headwater.consumers.dataset.export import export
from headwater.consumers.dataset.folding import taken_for_one
from headwater.rules.collisions import Collision
from headwater.rules.errors import Refused

CASE = Collision(b"films/A.jpg", b"films/a.jpg")
FORM = Collision("films/cafe\u0301".encode(), "films/caf\u00e9".encode())
PATHS = [CASE.first, CASE.other, FORM.first, FORM.other, b"films/plain"]


@pytest.fixture
def folding(tmp_path: Path, eventually: Any) -> Callable[..., Any]:
    """``with folding(folder):`` rclone shows a hidden folder there. It folds case and, unless told, Unicode form."""
    rclone = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")

    @contextmanager
    def mount(folder: Path, *options: str) -> Iterator[None]:
        if rclone is None or not shutil.which("fusermount3") or not os.access("/dev/fuse", os.W_OK):
            pytest.skip("this needs rclone, fuse3 and a user who may mount")
        behind = tmp_path / f"behind-{folder.name}"
        behind.mkdir()
        environment = {**os.environ, "RCLONE_CONFIG": os.devnull, "RCLONE_CACHE_DIR": str(tmp_path / "cache")}
        writes = ("--vfs-cache-mode", "writes", "--vfs-write-back", "0")
        command = [rclone, "mount", "--vfs-case-insensitive", *writes, *options, behind, folder]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
            try:
                eventually(lambda: os.path.ismount(folder) or process.poll() is not None)
                if process.poll() is not None:
                    assert process.stderr is not None
                    pytest.skip(f"rclone mount: {process.stderr.read().decode()}")
                yield
            finally:
                subprocess.run(["fusermount3", "-u", folder], capture_output=True)
                process.terminate()

    return mount


def test_a_folder_that_folds_both_takes_both_pairs_for_one(folding: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with folding(folder):
        assert taken_for_one(os.fsencode(folder), PATHS) == [CASE, FORM]
        assert list(folder.iterdir()) == []


def test_a_folder_that_folds_case_takes_that_pair_for_one(folding: Any, tmp_path: Path) -> None:
    """The filesystem's table is the one that counts, not ours."""
    folder = tmp_path / "out"
    folder.mkdir()
    with folding(folder, "--no-unicode-normalization"):
        assert taken_for_one(os.fsencode(folder), PATHS) == [CASE]


def test_each_pair_is_tried_next_to_its_place(folding: Any, tmp_path: Path) -> None:
    """One folder of an export may lie on another disk, or be the only one that folds."""
    films = tmp_path / "out/films"
    films.mkdir(parents=True)
    (films.parent / "link").symlink_to(films)
    with folding(films):
        paths = [*PATHS, b"photos/A", b"photos/a", b"A", b"a", b"link/A", b"link/a"]
        assert taken_for_one(os.fsencode(films.parent), paths) == [CASE, FORM]


def test_a_folder_that_tells_names_apart_takes_none_for_one(tmp_path: Path) -> None:
    odd = [b"../A", b"../a", b"a\0B", b"a\0b", b"/A", b"/a", b"..", "..\u200b".encode(), b"A\xff", b"a\xff"]

    assert taken_for_one(os.fsencode(tmp_path), [*PATHS, *odd]) == []
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_would_mix_two_files_writes_nothing(
    world: Any, dataset: Dataset, folding: Any, tmp_path: Path
) -> None:
    for path in (b"A.jpg", b"a.jpg", b"deep/plain"):
        world.write(path, path)
    world.commit()
    folder = tmp_path / "out"
    folder.mkdir()
    with folding(folder):
        with pytest.raises(Refused, match=r"films/A\.jpg and films/a\.jpg.*No file was written.*PREFIX") as refused:
            export(dataset, "v1", folder)
        assert (refused.value.facts["count"], list(folder.iterdir())) == (1, [])

        assert export(dataset, "v1", folder, prefix="films/deep/").is_whole
        assert (folder / "films/deep/plain").read_bytes() == b"deep/plain"

    assert export(dataset, "v1", tmp_path / "apart").is_whole
    assert {(tmp_path / "apart/films" / name).read_text() for name in ("A.jpg", "a.jpg")} == {"A.jpg", "a.jpg"}
