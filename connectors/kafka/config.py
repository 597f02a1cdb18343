"""Where Kafka is and how to speak to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SECRET = re.compile(r"password|secret|key\.pem|jaas|oauthbearer\.config|token", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KafkaConfig:
    """``client`` passes through to librdkafka as it stands (TLS, SASL, anything): it wins over our own settings.

    ``prefix`` goes before every topic, group and transactional id, so that several installations, or the tests, share
    one cluster.
    """

    bootstrap_servers: str
    prefix: str = ""
    client: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = {name: "***" if _SECRET.search(name) else value for name, value in self.client.items()}
        return f"KafkaConfig({self.bootstrap_servers!r}, prefix={self.prefix!r}, client={shown!r})"
