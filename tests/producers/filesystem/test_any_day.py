"""Anything may happen to a tree, in any order, with the agent running or away: in the end the log says it all."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from headwater.producers.filesystem.config import AgentConfig

Eventually = Callable[..., Any]


class Tree:
    """Random changes to a real tree; only whole, closed writes."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)

    def folders(self) -> list[Path]:
        return [self.root, *(path for path in self.root.rglob("*") if path.is_dir() and not path.is_symlink())]

    def files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink()]

    def new_path(self) -> Path:
        return self.random.choice(self.folders()) / f"n{self.random.randrange(40)}"

    def write(self) -> None:
        path = self.new_path()
        if not path.is_dir():
            path.unlink(missing_ok=True) if path.is_symlink() else None
            path.write_bytes(self.random.randbytes(self.random.randrange(30)))

    def edit(self) -> None:
        if files := self.files():
            path = self.random.choice(files)
            before = path.stat()
            with path.open("r+b") as file:
                file.write(self.random.randbytes(4))
            if self.random.random() < 0.5:
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def truncate(self) -> None:
        if files := self.files():
            os.truncate(self.random.choice(files), 0)

    def delete(self) -> None:
        if files := self.files():
            self.random.choice(files).unlink()

    def rename(self) -> None:
        files, target = self.files(), self.new_path()
        if files and not target.is_dir():
            self.random.choice(files).rename(target)

    def link(self) -> None:
        files, target = self.files(), self.new_path()
        if files and not target.exists() and not target.is_symlink():
            os.link(self.random.choice(files), target)

    def symlink(self) -> None:
        target = self.new_path()
        if not target.exists() and not target.is_symlink():
            target.symlink_to("somewhere")

    def make_folder(self) -> None:
        target = self.new_path()
        if not target.exists() and not target.is_symlink():
            target.mkdir()
            (target / "n0").write_bytes(self.random.randbytes(5))

    def move_folder(self) -> None:
        folders, target = self.folders()[1:], self.new_path()
        if folders and not target.exists() and not target.is_symlink():
            folder = self.random.choice(folders)
            if folder not in target.parents:
                folder.rename(target)

    def delete_folder(self) -> None:
        if (folders := self.folders()[1:]) and self.random.random() < 0.3:
            shutil.rmtree(self.random.choice(folders))

    def change(self) -> None:
        changes = [self.write] * 4 + [self.edit, self.truncate, self.delete, self.rename, self.link, self.symlink]
        self.random.choice([*changes, self.make_folder, self.move_folder, self.delete_folder])()

    def state(self) -> dict[bytes, bytes]:
        """Path to BLAKE3, or to the target of a link."""
        found = {}
        for path in self.root.rglob("*"):
            name = os.fsencode(path.relative_to(self.root))
            if path.is_symlink():
                found[name] = os.fsencode(os.readlink(path))
            elif path.is_file():
                found[name] = blake3(path.read_bytes()).digest()
        return found


def told(cloud: Any) -> dict[bytes, bytes]:
    return {path: record.hash or record.link_target for path, record in cloud.read().newest().items()}


@pytest.mark.parametrize("seed", range(2))
def test_after_any_day_the_log_says_what_the_tree_is(
    seed: int, config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    tree = Tree(config.root, seed)
    for _ in range(3):  # three lives of the agent
        for _ in range(60):  # while it is away
            tree.change()
        with follow(delete_hold_seconds=0.3, settle_seconds=0.05) as running:
            for _ in range(150):
                tree.change()
                pause_until = time.monotonic() + tree.random.choice((0, 0, 0.001, 0.02))
                eventually(lambda until=pause_until: time.monotonic() >= until)
            (config.root / "never-empty").touch()
            eventually(lambda: told(cloud) == tree.state(), 20)
            eventually(lambda: cloud.read().exceptions() == {} and running.status.pending == 0, 20)
    clocks = [record.clock for record in {(r.path, r.clock): r for r in cloud.records}.values()]
    assert len(clocks) == len(set(clocks))
