"""What a source itself says of a file's completeness: markers, names in progress, and a program that is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.producers.filesystem.agent import Agent
from headwater.producers.filesystem.complete import Completeness
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.tree import Tree
from headwater.rules.errors import BadSettings

Eventually = Callable[..., Any]


def paths(cloud: Any) -> set[bytes]:
    return set(cloud.read().newest())


def program(folder: Path, text: str) -> str:
    place = folder / "probe"
    place.write_text(f"#!{sys.executable}\n{text}")
    place.chmod(0o755)
    return str(place)


def test_a_file_waits_for_its_marker_and_is_named_meanwhile(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "a.mov").write_bytes(b"a")
    (config.root / "b.mov").write_bytes(b"b")
    (config.root / "b.mov.done").write_bytes(b"")
    with follow(complete_marker="{name}.done", retry_seconds=1000):
        eventually(lambda: paths(cloud) == {b"b.mov", b"b.mov.done"} and cloud.exceptions())
        assert cloud.exceptions() == {b"a.mov": "busy: its marker a.mov.done is not there"}
        (config.root / "a.mov.done").write_bytes(b"")
        eventually(lambda: paths(cloud) >= {b"a.mov"} and cloud.exceptions() == {})


def test_a_directory_waits_for_its_marker(config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually) -> None:
    for folder in ("day1", "day2"):
        (config.root / folder).mkdir()
        (config.root / folder / "a.mov").write_bytes(folder.encode())
    (config.root / "day2/.complete").write_bytes(b"")
    with follow(complete_marker=".complete", exclude=(".complete",), retry_seconds=1000):
        eventually(lambda: paths(cloud) == {b"day2/a.mov"} and set(cloud.exceptions()) == {b"day1/a.mov"})
        (config.root / "day1/.complete").write_bytes(b"")
        eventually(lambda: paths(cloud) == {b"day1/a.mov", b"day2/a.mov"} and cloud.exceptions() == {})


def test_a_name_in_progress_is_never_read_until_it_is_renamed(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "film.mov.part").write_bytes(b"half")
    with follow(in_progress=("*.part", "incoming/")):
        eventually(lambda: b"film.mov.part" in cloud.read().exceptions())
        (config.root / "film.mov.part").write_bytes(b"whole")
        (config.root / "other").write_bytes(b"other")
        eventually(lambda: paths(cloud) == {b"other"})
        (config.root / "film.mov.part").rename(config.root / "film.mov")
        eventually(lambda: paths(cloud) == {b"other", b"film.mov"} and cloud.exceptions() == {})
    assert {record.hash for record in cloud.of(b"film.mov.part")} == {None}


def test_a_probe_decides_with_the_path_as_bytes_and_its_failures_are_named(
    config: AgentConfig, follow: Any, cloud: Any, tmp_path: Path, eventually: Eventually
) -> None:
    probe = program(
        tmp_path,
        "import os, sys\n"
        "path = os.fsencode(sys.argv[2])\n"
        "assert sys.argv[1] == '--strict'\n"
        "if not open(path, 'rb').read().endswith(b'END'): sys.exit('no trailer yet')\n",
    )
    odd = os.fsencode(config.root) + b"/bad\xff; touch x"
    with open(odd, "wb") as file:
        file.write(b"all END")
    (config.root / "half").write_bytes(b"half")
    with follow(complete_probe=(probe, "--strict")):
        eventually(lambda: paths(cloud) == {b"bad\xff; touch x"} and cloud.exceptions())
        assert cloud.exceptions() == {b"half": f"busy: {probe} ended with 1: no trailer yet"}
        (config.root / "half").write_bytes(b"whole END")
        eventually(lambda: b"half" in paths(cloud) and cloud.exceptions() == {})


def test_a_probe_that_hangs_holds_up_nobody_and_is_killed_with_what_it_started(
    config: AgentConfig, follow: Any, cloud: Any, tmp_path: Path, eventually: Eventually
) -> None:
    pids = tmp_path / "pids"
    probe = program(
        tmp_path,
        "import subprocess, sys\n"
        "if '/hangs' in sys.argv[1]:\n"
        f"    child = subprocess.Popen(['sleep', '1000']); open({str(pids)!r}, 'a').write(f'{{child.pid}} ')\n"
        "    child.wait()\n",
    )
    for name in ("hangs1", "hangs2", "fine1", "fine2"):
        (config.root / name).write_bytes(name.encode())
    with follow(complete_probe=(probe,), complete_probe_seconds=2.0, read_threads=1):
        eventually(lambda: paths(cloud) == {b"fine1", b"fine2"})
        eventually(lambda: set(cloud.read().exceptions()) == {b"hangs1", b"hangs2"})
        assert set(cloud.exceptions().values()) == {f"busy: {probe} did not answer within 2 s"}
    for pid in map(int, pids.read_text().split()):
        eventually(lambda pid=pid: not _lives(pid))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"complete_marker": "../done"}, "complete_marker is '../done'"),
        ({"complete_marker": "{name}"}, "complete_marker is '{name}'"),
        ({"complete_probe": ("no-such-program",)}, "no-such-program"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_at_the_start(
    config: AgentConfig, kafka: Kafka, catalog: Catalog, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadSettings, match=said):
        Agent(replace(config, **settings), kafka, catalog)


@pytest.mark.parametrize(
    ("marker", "path", "marked"),
    [
        ("{name}.done", b"a/b.mov.done", b"a/b.mov"),
        ("{name}.done", b"a/b.mov", None),
        ("{name}.done", b".done", None),
        (".ok-{name}", b".ok-x\xff", b"x\xff"),
        (".complete", b"a/b/.complete", b"a/b"),
        (".complete", b".complete", b""),
        ("", b"a", None),
    ],
)
def test_what_a_marker_marks(config: AgentConfig, marker: str, path: bytes, marked: bytes | None) -> None:
    completeness = Completeness(replace(config, complete_marker=marker), Tree(config.root))
    assert completeness.marked_by(path) == marked
