"""The steps of an installation: a process that dies between any two leaves the old file or the new one, never less.

The installation runs in a child process (this file, as a script), which dies before or after one step.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from headwater.consumers.peer.bytes import install
from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.partial import PartialFile
from headwater.rules.cast.chunks import Chunks, root_of
from headwater.rules.errors import Fenced, Refused

MIB = 1024 * 1024
STEPS = ("sync", "intend", "rename", "sync_folders", "mark")


def receive(folder: CastFolder, path: Path, epoch: int) -> tuple[PartialFile, bytes]:
    """All chunks of the file at ``path``, and their root: hashed here, as the caster does it."""
    data = path.read_bytes()
    chunks = Chunks(len(data), MIB)
    pieces = [data[start : start + MIB] for start in range(0, len(data), MIB)]
    hashes = b"".join(blake3(piece).digest() for piece in pieces)
    partial = PartialFile(folder, "weights", epoch, "w.bin", chunks)
    partial.learn(0, hashes)
    for chunk, piece in enumerate(pieces):
        if not (chunk in partial.left_over() and partial.rehash(chunk)):
            writer = partial.begin(chunk)
            writer.write(memoryview(piece))
            assert writer.finish()
            writer.close()
    return partial, root_of(chunks, hashes)


def die_in(step: str, when: str) -> None:
    real = getattr(install, step)

    def wrapped(*arguments: Any) -> None:
        if when == "after":
            real(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(install, step, wrapped)


def child(into: str, path: str, epoch: str, step: str, when: str) -> None:
    die_in(step, when)
    partial, root = receive(CastFolder(Path(into)), Path(path), int(epoch))
    partial.install(root)


def installed_in(into: Path, content: Any, epoch: int) -> None:
    partial, root = receive(CastFolder(into), content.path, epoch)
    partial.install(root)
    partial.close()


@pytest.mark.fault
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_death_at_any_step_leaves_a_whole_file_and_the_next_run_completes(fleet: Any, step: str, when: str) -> None:
    old, new = fleet.content(MIB + 1, name="old"), fleet.content(2 * MIB + 7, name="new")
    into = fleet.folder / "into"
    installed_in(into, old, epoch=7)

    died = subprocess.run(
        [sys.executable, __file__, str(into), str(new.path), "9", step, when],
        timeout=60,
        capture_output=True,
        check=False,
    )

    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    steps_done = STEPS.index(step) + (when == "after")
    intended, renamed = steps_done > STEPS.index("intend"), steps_done > STEPS.index("rename")
    assert (into / "w.bin").read_bytes() == (new if renamed else old).data
    folder = CastFolder(into)
    found = install.installed(folder, "weights")
    assert (found.epoch if found else None) == (9 if renamed else None if intended else 7)
    between, root = receive(folder, old.path, epoch=8)
    if intended:
        with pytest.raises(Fenced):
            between.install(root)
        between.discard()
    else:
        between.discard()
    if not renamed:
        installed_in(into, new, epoch=9)
    assert (into / "w.bin").read_bytes() == new.data
    found = install.installed(folder, "weights")
    assert found is not None
    assert (found.epoch, found.present) == (9, True)
    assert {path.name for path in into.rglob("*")} <= {
        ".headwater-cast",
        "w.bin",
        "weights.installed.json",
        "weights.mark-draft",
    }


def test_an_older_epoch_never_replaces_a_newer_one(fleet: Any) -> None:
    old, new = fleet.content(MIB, name="old"), fleet.content(2 * MIB, name="new")
    installed_in(fleet.folder / "into", new, epoch=9)

    with pytest.raises(Fenced):
        installed_in(fleet.folder / "into", old, epoch=8)

    assert (fleet.folder / "into/w.bin").read_bytes() == new.data


def test_an_older_cast_of_another_name_does_not_take_the_file_name(fleet: Any) -> None:
    content = fleet.content(MIB)
    folder = fleet.into()
    content.fill(content.partial(folder, epoch=9)).install(content.root)
    other = fleet.content(2 * MIB, name="other")

    with pytest.raises(Fenced):
        other.fill(other.partial(folder, epoch=8, name="another")).install(other.root)
    other.fill(other.partial(folder, epoch=10, name="another")).install(other.root)

    assert (fleet.folder / "into/w.bin").read_bytes() == other.data
    replaced = install.installed(folder, "weights")
    assert replaced is not None
    assert not replaced.present


def test_a_folder_in_the_way_keeps_the_received_bytes(fleet: Any) -> None:
    content = fleet.content(MIB)
    partial = content.fill(content.partial(fleet.into()))
    (fleet.folder / "into/w.bin").mkdir()

    with pytest.raises(Refused):
        partial.install(content.root)

    assert (fleet.folder / "into/.headwater-cast/weights.7.partial").read_bytes() == content.data


def test_a_removed_file_is_not_present_any_more(fleet: Any) -> None:
    content = fleet.content(MIB)
    folder = fleet.into()
    assert install.installed(folder, "weights") is None
    content.fill(content.partial(folder)).install(content.root)

    (fleet.folder / "into/w.bin").unlink()

    found = install.installed(folder, "weights")
    assert found is not None
    assert (found.epoch, found.root, found.present) == (7, content.root, False)


if __name__ == "__main__":
    child(*sys.argv[1:])
