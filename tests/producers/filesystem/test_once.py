"""A single run: when it ends, with what exit code, and that it does not wait for nobody."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.producers.filesystem.agent import Agent
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.dry_run import dry_run
from headwater.producers.filesystem.status import AgentStatus
from headwater.rules.errors import Unavailable
from headwater.schemas import topics

Eventually = Callable[..., Any]


@contextmanager
def uploaders(kafka: Kafka, site: str, eventually: Eventually) -> Iterator[None]:
    """Members of the site's two upload groups."""
    members = [
        (kafka.consumer(f"upload-files.{site}"), topics.fs_changes(site)),
        (kafka.consumer(f"upload-parts.{site}"), topics.fs_parts(site)),
    ]
    for consumer, topic in members:
        consumer.subscribe([kafka.physical(topic)])
    try:
        for consumer, _ in members:
            eventually(lambda consumer=consumer: consumer.poll(0.1) or consumer.assignment(), 30)
        yield
    finally:
        for consumer, _ in members:
            consumer.close()


def run_once(agent: Agent, cloud: Any, eventually: Eventually) -> AgentStatus:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(agent.run, once=True)
        try:
            eventually(lambda: cloud.read() and running.done(), 30)
        finally:
            agent.stop()
        return running.result()


def test_without_an_uploader_it_says_so_at_once(config: AgentConfig, kafka: Kafka, catalog: Catalog) -> None:
    with pytest.raises(Unavailable, match="no uploader lives") as said:
        Agent(config, kafka, catalog).run(once=True)
    assert "headwater run upload-files" in said.value.advice


def test_it_ends_when_everything_is_verified_or_named(
    config: AgentConfig, kafka: Kafka, catalog: Catalog, cloud: Any, eventually: Eventually
) -> None:
    for number in range(20):
        (config.root / f"{number}").write_bytes(os.urandom(9))
    with uploaders(kafka, config.site, eventually):
        status = run_once(Agent(config, kafka, catalog), cloud, eventually)
        assert (status.exit_code, status.verified, status.pending) == (0, 20, 0)

        (config.root / "1").unlink()
        with (config.root / "busy").open("wb"):
            status = run_once(Agent(replace(config, delete_hold_seconds=3600), kafka, catalog), cloud, eventually)
        assert (status.exit_code, status.verified, status.exceptions) == (3, 19, 1)
        assert b"1" not in cloud.newest()
        assert set(cloud.exceptions()) == {b"busy"}


def test_a_path_that_the_cloud_named_is_not_waited_for(
    config: AgentConfig, kafka: Kafka, catalog: Catalog, cloud: Any, eventually: Eventually
) -> None:
    (config.root / "dead").write_bytes(b"dead-lettered %r" % config.source)
    with catalog.transaction() as transaction:
        transaction.execute(
            "INSERT INTO exceptions (source, path, epoch, seq, reason, active) VALUES (%s, 'dead', 1, 1, 'x', true)",
            [config.source],
        )

    class Unverified:
        def read(self) -> Any:
            with catalog.transaction() as transaction:
                for record in cloud.read().records:
                    transaction.execute("DELETE FROM objects WHERE hash = %s", [record.hash])
            return self

    with uploaders(kafka, config.site, eventually):
        status = run_once(Agent(config, kafka, catalog), Unverified(), eventually)
    assert (status.exit_code, status.pending) == (3, 1)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually
) -> None:
    for name in ("same", "changed", "gone"):
        (config.root / name).write_bytes(name.encode())
    (config.root / "folder").mkdir()
    assert {(planned.path, planned.action) for planned in dry_run(config)} == {
        (b"same", "new"),
        (b"changed", "new"),
        (b"gone", "new"),
    }
    with follow() as running:
        eventually(lambda: len(cloud.read().newest()) == 3)
        (config.root / "changed").write_bytes(b"other")
        eventually(lambda: len(cloud.read().of(b"changed")) == 2 and running.status.walked)
    sent = len(cloud.records)
    (config.root / "changed").write_bytes(b"once more")
    (config.root / "gone").unlink()
    (config.root / "x.tmp").touch()
    (config.root / "folder/new").write_bytes(b"12")
    os.mkfifo(config.root / "fifo")
    assert {(planned.path, planned.action, planned.size) for planned in dry_run(config)} == {
        (b"changed", "read", 9),
        (b"gone", "missing", 4),
        (b"x.tmp", "excluded", 0),
        (b"folder/new", "new", 2),
        (b"fifo", "special", 0),
    }
    assert len(cloud.read().records) == sent
