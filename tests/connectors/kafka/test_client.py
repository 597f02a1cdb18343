"""The client's settings and what its errors tell."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.headers import event_headers, header, redrives
from headwater.connectors.kafka.topics import verify_topics
from headwater.rules.errors import BadSettings, Fenced, HeadwaterError, Refused, TopicMismatch, Unavailable, Unclear
from headwater.stack.addresses import Addresses


def test_secrets_do_not_show() -> None:
    shown = repr(KafkaConfig("a:1", client={"sasl.password": "hush", "ssl.key.pem": "hush", "sasl.username": "ann"}))
    assert "hush" not in shown
    assert "ann" in shown


def test_a_setting_that_guarantees_rest_on_is_refused_by_name() -> None:
    with pytest.raises(BadSettings, match=r"partition\.assignment\.strategy"):
        KafkaConfig("a:1", client={"partition.assignment.strategy": "cooperative-sticky"})


def test_an_unknown_setting_is_named(stack: Addresses) -> None:
    with pytest.raises(BadSettings, match=r"nonsense.*kafka\.client"):
        verify_topics(Kafka(KafkaConfig(stack.kafka, client={"nonsense": 1})), ())


def test_refused_credentials_are_told_from_silence(stack: Addresses) -> None:
    """The broker speaks no SASL: it refuses the handshake."""
    sasl = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "hush",
    }
    with pytest.raises(Refused, match=r"refused the connection.*sasl\.username") as refused:
        verify_topics(Kafka(KafkaConfig(stack.kafka, client=sasl)), ())
    assert stack.kafka in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("code", "expected", "said"),
    [
        (KafkaError._ALL_BROKERS_DOWN, Unavailable, "broker.example:9092 does not answer"),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, Unavailable, "HEADWATER_KAFKA"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Refused, "does not permit"),
        (KafkaError.INVALID_SESSION_TIMEOUT, BadSettings, "group.min.session.timeout.ms"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMismatch, "headwater topics apply"),
        (KafkaError.ILLEGAL_GENERATION, Fenced, "went on without this member"),
        (KafkaError.INVALID_PRODUCER_EPOCH, Fenced, "went on without this member"),
        (KafkaError.UNKNOWN, Unclear, "UNKNOWN"),
    ],
)
def test_an_error_becomes_one_of_ours(code: int, expected: type[HeadwaterError], said: str) -> None:
    error = Kafka(KafkaConfig("broker.example:9092")).mapped(KafkaError(code), asked="It was asked.")
    assert type(error) is expected
    assert said in str(error)
    assert str(error).startswith("It was asked.")


def test_names_carry_the_prefix() -> None:
    kafka = Kafka(KafkaConfig("a:1", prefix="one."))
    assert (kafka.physical("orders"), kafka.group("till")) == ("one.orders", "one.till")


def test_headers_say_when_who_and_why() -> None:
    headers = event_headers(1_700_000_000_000_000, b"trace")
    assert header(headers, "headwater-event-time") == b"1700000000000000"
    assert header(headers, "traceparent") == b"trace"
    assert header(event_headers(1), "traceparent") is None


@pytest.mark.parametrize(("value", "count"), [(b"2", 2), (b"two", 0), (None, 0), (b"-1", 0)])
def test_redrives_are_counted_and_nonsense_is_none(value: bytes | None, count: int) -> None:
    assert redrives([("headwater-redrives", value)]) == count
