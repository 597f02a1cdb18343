"""Our settings of Kafka as Faust's client, aiokafka, takes them: it does not know librdkafka's names."""

from __future__ import annotations

import ssl
from typing import Any

from faust.auth import SASLCredentials, SSLCredentials

from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import BadSettings

_UNDERSTOOD = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
}
"""What decides whether a broker lets us in. Everything else (time-outs, buffers) tunes librdkafka, and is left out."""

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def broker_settings(config: KafkaConfig) -> dict[str, Any]:
    """Faust's ``broker`` and ``broker_credentials``. Raises BadSettings for a way in that the views do not know."""
    servers = [server.strip() for server in config.bootstrap_servers.split(",") if server.strip()]
    return {
        "broker": ";".join(f"aiokafka://{server}" for server in servers),
        "broker_credentials": _credentials(config),
    }


def _credentials(config: KafkaConfig) -> Any:
    said = {name: str(value) for name, value in config.client.items()}
    strange = {name for name in said if name.startswith(("sasl.", "ssl.")) and name not in _UNDERSTOOD}
    protocol = said.get("security.protocol", "PLAINTEXT").upper()
    context = _tls(said) if protocol in ("SSL", "SASL_SSL") else None
    if strange:
        raise _refused(f"kafka.client sets {', '.join(sorted(strange))}, which the views' client does not know.")
    if protocol == "PLAINTEXT":
        return None
    if protocol == "SSL":
        return SSLCredentials(context)
    if protocol not in ("SASL_PLAINTEXT", "SASL_SSL"):
        raise _refused(f"kafka.client.security.protocol is {protocol!r}.")
    mechanism = (said.get("sasl.mechanism") or said.get("sasl.mechanisms") or "").upper()
    if mechanism not in _MECHANISMS:
        raise _refused(f"the SASL mechanism is {mechanism or 'not set'}; the views know {', '.join(_MECHANISMS)}.")
    return SASLCredentials(
        username=said.get("sasl.username"),
        password=said.get("sasl.password"),
        ssl_context=context,
        mechanism=mechanism,
    )


def _tls(said: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=said.get("ssl.ca.location"))
        if "ssl.certificate.location" in said:
            context.load_cert_chain(
                said["ssl.certificate.location"], said.get("ssl.key.location"), said.get("ssl.key.password")
            )
    except OSError as error:  # also what the ssl module raises
        raise _refused(f"a certificate or key of kafka.client cannot be read: {error}.") from error
    return context


def _refused(happened: str) -> BadSettings:
    return BadSettings(
        happened,
        asked="The views were to connect to Kafka.",
        kept="The groups that carry files are not affected.",
        advice="See docs/operations.md for what the views' client understands.",
    )
