"""Files and folders that cannot be read, filesystems that come and go, and servers that do."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.producers.filesystem.agent import Agent
from headwater.producers.filesystem.config import AgentConfig
from headwater.rules.errors import BadSettings, TopicMismatch
from headwater.schemas.records import ChangeKind, Guarantee

Eventually = Callable[..., Any]


def paths(cloud: Any) -> set[bytes]:
    return set(cloud.read().newest())


@contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """A memory filesystem at ``folder``."""
    done = subprocess.run(["mount", "-t", "tmpfs", "none", folder], capture_output=True)
    if done.returncode:
        pytest.skip("this user may not mount")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], capture_output=True)


def test_what_cannot_be_read_is_named_and_deletes_nothing(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "folder").mkdir()
    (config.root / "folder/file").write_bytes(b"in a folder")
    (config.root / "secret").write_bytes(b"secret")
    with follow(delete_hold_seconds=0.2, as_anybody=True):
        eventually(lambda: paths(cloud) == {b"folder/file", b"secret"})
        (config.root / "secret").write_bytes(b"changed")
        (config.root / "secret").chmod(0)
        (config.root / "folder").chmod(0)
        eventually(lambda: set(cloud.read().exceptions()) == {b"secret", b"folder"})
        assert set(cloud.exceptions().values()) == {"unreadable: Permission denied"}
        long_after_the_hold = time.monotonic() + 1.0
        eventually(lambda: cloud.read() and time.monotonic() > long_after_the_hold)
        (config.root / "folder").chmod(0o755)
        (config.root / "secret").chmod(0o644)
        eventually(lambda: cloud.read().exceptions() == {})
    assert [record.kind for record in cloud.of(b"secret")] == [
        ChangeKind.created,
        ChangeKind.excepted,
        ChangeKind.modified,
        ChangeKind.cleared,
    ]
    assert ChangeKind.deleted not in {record.kind for record in cloud.records}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_without_a_lease_the_guarantee_is_weak(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "mine").write_bytes(b"mine")
    (config.root / "theirs").write_bytes(b"theirs")
    os.chown(config.root / "theirs", 1234, 1234)
    with follow(as_anybody=True):
        eventually(lambda: paths(cloud) == {b"mine", b"theirs"})
    assert cloud.of(b"mine")[0].guarantee is Guarantee.strong
    assert cloud.of(b"theirs")[0].guarantee is Guarantee.weak


def test_an_unmounted_folder_below_the_root_deletes_nothing(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "disk").mkdir()
    (config.root / "plain").write_bytes(b"plain")
    with mounted(config.root / "disk"):
        (config.root / "disk/sub").mkdir()
        (config.root / "disk/sub/file").write_bytes(b"on the disk")
        with follow(delete_hold_seconds=0.2) as running:
            eventually(lambda: paths(cloud) == {b"plain", b"disk/sub/file"} and running.status.pending == 0)
            subprocess.run(["umount", config.root / "disk"], check=True)
            eventually(lambda: b"disk" in cloud.read().exceptions())
            long_after_the_hold = time.monotonic() + 1.0
            eventually(lambda: cloud.read() and time.monotonic() > long_after_the_hold)
    assert ChangeKind.deleted not in {record.kind for record in cloud.records}


def test_a_filtered_path_is_neither_sent_nor_deleted(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "build").mkdir()
    for name in ("a.jpg", "b.txt", "build/c.jpg", "d.jpg"):
        (config.root / name).write_bytes(name.encode())
    with follow(include=("*.jpg",), exclude=("build/",)) as running:
        eventually(lambda: paths(cloud) == {b"a.jpg", b"d.jpg"} and running.status.walked)
    with follow(exclude=("a.jpg",), delete_hold_seconds=0.1) as running:
        eventually(lambda: paths(cloud) == {b"a.jpg", b"d.jpg", b"b.txt", b"build/c.jpg"})
        (config.root / "d.jpg").unlink()
        eventually(lambda: paths(cloud) == {b"a.jpg", b"b.txt", b"build/c.jpg"})


def test_a_folder_that_becomes_a_link_is_not_followed(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    outside = config.root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"outside")
    (config.root / "folder").mkdir()
    (config.root / "folder/file").write_bytes(b"inside")
    with follow() as running:
        eventually(lambda: paths(cloud) == {b"folder/file"} and running.status.walked)
        (config.root / "folder").rename(config.root.parent / "gone")
        (config.root / "folder").symlink_to(outside)
        eventually(lambda: paths(cloud) == {b"folder"})
    assert cloud.newest()[b"folder"].link_target == os.fsencode(outside)


def test_a_file_and_a_folder_may_change_places(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "x").write_bytes(b"file")
    (config.root / "y").mkdir()
    (config.root / "y/z").write_bytes(b"below")
    with follow() as running:
        eventually(lambda: paths(cloud) == {b"x", b"y/z"} and running.status.walked)
        (config.root / "x").unlink()
        (config.root / "x").mkdir()
        (config.root / "x/w").write_bytes(b"new below")
        (config.root / "y/z").unlink()
        (config.root / "y").rmdir()
        (config.root / "y").write_bytes(b"now a file")
        eventually(lambda: paths(cloud) == {b"x/w", b"y"})


def test_the_agent_goes_on_without_the_catalog_and_confirms_later(
    config: AgentConfig, kafka: Kafka, catalog: Catalog, cloud: Any, pass_through: Any, eventually: Eventually
) -> None:
    with pass_through(catalog.config.dsn) as link, Catalog(CatalogConfig(link.dsn, connect_seconds=0.5)) as far:
        agent = Agent(config, kafka, far)
        running = Thread(target=agent.run, daemon=True)
        running.start()
        try:
            eventually(lambda: agent.status.walked)
            link.cut()
            (config.root / "file").write_bytes(b"while the catalog is away")
            eventually(lambda: paths(cloud) == {b"file"} and agent.status.trouble, 20)
            link.mend()
            eventually(lambda: cloud.read() and agent.status.pending == 0 and agent.status.trouble is None, 20)
        finally:
            agent.stop()
            running.join(30)


def test_missing_topics_and_a_foreign_index_are_refused_with_the_fix(
    config: AgentConfig, kafka: Kafka, catalog: Catalog, stack: Any
) -> None:
    with pytest.raises(TopicMismatch, match=r"fs\.changes\.here"):
        Agent(config, Kafka(KafkaConfig(stack.kafka, prefix="nothing-here.")), catalog).run()
    with pytest.raises(BadSettings, match="has source"):
        Agent(replace(config, source="other"), kafka, catalog)


def test_a_named_path_that_went_unseen_is_cleared(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    """With its folder, and while the agent was away: versions do not name what is not there."""
    (config.root / "folder/deep").mkdir(parents=True)
    for name in ("a", "folder/b", "folder/deep/c"):
        os.mkfifo(config.root / name)
    with follow():
        eventually(lambda: set(cloud.read().exceptions()) == {b"a", b"folder/b", b"folder/deep/c"})
        (config.root / "folder").rename(config.root.parent / "away")
        eventually(lambda: set(cloud.read().exceptions()) == {b"a"})
    (config.root / "a").unlink()
    with follow():
        eventually(lambda: cloud.read().exceptions() == {})
