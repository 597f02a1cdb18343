from __future__ import annotations

from pathlib import Path

import pytest

from headwater.rules.errors import NotFound, Unavailable
from headwater.stack import toolchains
from headwater.stack.progress import silent


@pytest.mark.parametrize(
    ("printed", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_392"', 8),
        ("bash: java: command not found", 0),
        ("", 0),
    ],
)
def test_the_java_release_is_read_from_what_java_prints(printed: str, release: int) -> None:
    assert toolchains.java_release(printed) == release


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go version go1.27 darwin/arm64", (1, 27)),
        ("go version go1.28rc1 linux/amd64", (1, 28)),
        ("", ()),
    ],
)
def test_the_go_version_is_read_from_what_go_prints(printed: str, version: tuple[int, ...]) -> None:
    assert toolchains.go_version(printed) == version


def test_an_older_go_is_older_by_number_not_by_letter() -> None:
    assert toolchains.go_version("go version go1.9.7 linux/amd64") < toolchains.version_numbers("1.26.4")


def test_a_failed_command_shows_the_end_of_its_output(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="checksum mismatch"):
        toolchains.run(["/bin/sh", "-c", "echo checksum mismatch >&2; exit 3"], cwd=tmp_path)


def test_without_maven_an_ordinary_user_is_told_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match="apt-get install maven"):
        toolchains.maven(silent)
