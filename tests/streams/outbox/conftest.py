"""A database of jobs and the topics of jobs, for one test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.schemas.topics import JOBS_EVENTS, JOBS_REQUESTED
from tests.any_job import Place, any_place


@pytest.fixture
def place(catalog_dsn: str) -> Iterator[Place]:
    with any_place(catalog_dsn) as place:
        yield place


@pytest.fixture
def kafka(stack: Any, kafka_prefix: str) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
    topics.apply(kafka, (JOBS_EVENTS, JOBS_REQUESTED))
    return kafka
