"""The topics of casts, for one test."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from headwater.connectors.kafka import topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from tests.any_cast import TOPICS, CastLog


@pytest.fixture
def log(stack: Any) -> CastLog:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=f"t{uuid.uuid4().hex[:8]}."))
    topics.apply(kafka, TOPICS)
    return CastLog(kafka)
