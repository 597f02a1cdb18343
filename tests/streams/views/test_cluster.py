"""Our settings of Kafka as the views' client takes them, and what it does not know."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from faust.types.auth import AuthProtocol, SASLMechanism

from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import BadSettings
from headwater.streams.views.cluster import broker_settings


def test_every_server_is_named() -> None:
    found = broker_settings(KafkaConfig("a:1, b:2", client={"linger.ms": 20}))

    assert found == {"broker": "aiokafka://a:1;aiokafka://b:2", "broker_credentials": None}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_reaches_the_client_over_tls(mechanism: str) -> None:
    client = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.username": "headwater",
        "sasl.password": "secret",
    }  # fmt: skip

    found = broker_settings(KafkaConfig("a:1", client=client))["broker_credentials"]

    assert (found.username, found.password) == ("headwater", "secret")
    assert found.protocol is AuthProtocol.SASL_SSL
    assert found.mechanism is SASLMechanism(mechanism)
    assert found.ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert "secret" not in repr(found)


def test_tls_alone_checks_the_broker() -> None:
    found = broker_settings(KafkaConfig("a:1", client={"security.protocol": "ssl"}))["broker_credentials"]

    assert found.context.verify_mode is ssl.CERT_REQUIRED
    assert found.context.check_hostname


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"security.protocol": "SASL_SSL"}, "not set"),
        ({"security.protocol": "SASL_SSL", "sasl.oauthbearer.config": "x"}, "sasl.oauthbearer.config"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "x"}, "ssl.keystore.location"),
        ({"security.protocol": "TELNET"}, "TELNET"),
    ],
)
def test_a_way_in_that_the_client_does_not_know_is_refused(client: dict[str, str], said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        broker_settings(KafkaConfig("a:1", client=client))


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    client = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "missing.pem")}

    with pytest.raises(BadSettings, match="cannot be read"):
        broker_settings(KafkaConfig("a:1", client=client))
