"""Apache Kafka: one client, its errors mapped to ours, and the topics that the catalogue asks for."""

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.headers import event_headers
from headwater.connectors.kafka.topics import verify_topics

__all__ = ["Kafka", "KafkaConfig", "event_headers", "verify_topics"]
