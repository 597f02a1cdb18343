"""The agent on a real folder: the ordinary day's cases of notes/sync.md, by their numbers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from blake3 import blake3

from headwater.producers.filesystem.config import AgentConfig
from headwater.schemas.records import ChangeKind, FileType, Guarantee


def tree_of(root: Any) -> dict[bytes, bytes]:
    """Path to BLAKE3 of each regular file below ``root``, found independently of the product."""
    found = {}
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, os.fsencode(root))] = blake3(file.read()).digest()
    return found


def hashes(cloud: Any) -> dict[bytes, bytes]:
    return {path: record.hash for path, record in cloud.read().newest().items() if record.hash is not None}


def test_a_tree_that_was_there_before_is_carried_whole(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Callable[..., Any]
) -> None:
    (config.root / "a/b").mkdir(parents=True)
    for number in range(50):
        (config.root / f"a/{number}.bin").write_bytes(os.urandom(number))
    (config.root / "a/b/deep.bin").write_bytes(b"deep")
    with follow() as running:
        eventually(lambda: hashes(cloud) == tree_of(config.root), 20)
        eventually(lambda: cloud.read() and running.status.walked and running.status.pending == 0, 20)
    assert {record.kind for record in cloud.records} == {ChangeKind.created}
    assert {record.guarantee for record in cloud.records} == {Guarantee.strong}
    assert {record.file_type for record in cloud.records} == {FileType.regular}
    assert sorted(record.seq for record in cloud.records) == list(range(1, 52))
    assert len(cloud.checkpoints) == 6
