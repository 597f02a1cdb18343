"""A renamed folder from the disk to the catalog: the agent, the log, upload and verify, and a counter before S3.

Scaled down: 500 files here; HEADWATER_TEST_RENAMED=10000 is the full size.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.producers.filesystem.agent import Agent
from headwater.producers.filesystem.config import AgentConfig
from headwater.schemas.topics import catalogue
from headwater.stack.addresses import Addresses
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.upload.files_lane import FilesLane
from headwater.streams.verify.config import VerifyConfig
from headwater.streams.verify.verifier import Verifier

FILES = int(os.environ.get("HEADWATER_TEST_RENAMED", "500"))
SOURCE = "film"


@pytest.fixture
def kafka(stack: Addresses, kafka_prefix: str) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, catalogue(("here",)))
    return kafka


@contextmanager
def flowing(world: Any, kafka: Kafka, folder: Path) -> Iterator[Agent]:
    """An agent, an uploader and a verifier, each in a thread."""
    config = AgentConfig(
        SOURCE,
        "here",
        "films",
        world.root,
        folder / "state",
        settle_seconds=0.2,
        verified_poll_seconds=0.2,
    )
    agent = Agent(config, kafka, Catalog(world.catalog.config))
    processors = (
        FilesLane(world.config, world.catalog, world.store),
        Verifier(VerifyConfig(), world.catalog, world.store),
    )
    members = [Member(kafka, processor, MemberConfig(slot_folder=folder)) for processor in processors]
    threads = [threading.Thread(target=one.run, daemon=True) for one in (*members, agent)]
    for thread in threads:
        thread.start()
    try:
        yield agent
    finally:
        for one in (agent, *members):
            one.stop()
        for thread in threads:
            thread.join(60)


def newest(world: Any) -> dict[tuple[str, str], int]:
    """How many paths have which newest state, by their folder."""
    rows = world.query(
        "SELECT split_part(convert_from(path, 'UTF8'), '/', 1), kind, count(*) FROM file_versions "
        "JOIN paths USING (source, path, epoch, seq) WHERE source = %s GROUP BY 1, 2",
        SOURCE,
    )
    return {(folder, kind): count for folder, kind, count in rows}


def test_a_renamed_folder_sends_no_byte(
    world: Any, kafka: Kafka, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    content = random.Random(FILES)
    (world.root / "before").mkdir()
    for number in range(FILES):
        (world.root / "before" / f"{number}").write_bytes(content.randbytes(64))

    with flowing(world, kafka, tmp_path) as agent:
        eventually(lambda: agent.status.files == FILES and agent.status.walked and not agent.status.pending, 240)
        sent = len(world.passage.sent("^(PUT|POST) "))
        assert sent >= FILES

        renamed_at = time.monotonic()
        (world.root / "before").rename(world.root / "after")
        moved = {("after", "renamed"): FILES, ("before", "deleted"): FILES}
        eventually(lambda: newest(world) == moved, 240)
        print(f"{FILES} files renamed in {time.monotonic() - renamed_at:.1f} s")
        eventually(lambda: not agent.status.pending and not agent.status.held, 120)
    assert len(world.passage.sent("^(PUT|POST) ")) == sent
