from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.stack import cache

BUILD = """
import pathlib, sys, time
from headwater.stack import cache
def build(folder):
    (folder / "program").write_text("built")
    with open(sys.argv[2], "a") as builds:
        builds.write("x")
    if sys.argv[3] == "die":
        import os; os._exit(9)
    time.sleep(0.2)
cache.built(pathlib.Path(sys.argv[1]), build)
"""


def builder(path: Path, builds: Path, end: str = "well") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", BUILD, str(path), str(builds), end], env=os.environ)


def test_two_processes_that_ask_at_once_build_once(tmp_path: Path) -> None:
    path = cache.entry("program", "1.0", [b"pom"], tmp_path)
    asking = [builder(path, tmp_path / "builds") for _ in range(3)]

    assert [process.wait() for process in asking] == [0, 0, 0]
    assert (tmp_path / "builds").read_text(encoding="utf-8") == "x"
    assert (path / "program").read_text(encoding="utf-8") == "built"


def test_a_build_that_dies_leaves_no_entry_and_the_next_one_builds_it(tmp_path: Path) -> None:
    path = cache.entry("program", "1.0", [b"pom"], tmp_path)

    assert builder(path, tmp_path / "builds", "die").wait() == 9
    assert not path.exists()
    assert builder(path, tmp_path / "builds").wait() == 0
    assert sorted(file.name for file in path.iterdir()) == ["program"]


def test_a_build_that_fails_leaves_no_entry(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("no network")

    path = cache.entry("program", "1.0", [b"pom"], tmp_path)
    with pytest.raises(RuntimeError, match="no network"):
        cache.built(path, fail)
    assert not path.exists()


def test_what_it_was_built_from_names_the_entry(tmp_path: Path) -> None:
    paths = {
        cache.entry("program", "1.0", [b"ab", b"c"], tmp_path),
        cache.entry("program", "1.0", [b"a", b"bc"], tmp_path),
        cache.entry("program", "1.1", [b"ab", b"c"], tmp_path),
        cache.entry("other", "1.0", [b"ab", b"c"], tmp_path),
    }
    assert len(paths) == 4
    assert cache.entry("program", "1.0", [b"ab", b"c"], tmp_path) in paths
