"""Where Kafka is and how to speak to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.rules.errors import BadSettings

_SECRET = re.compile(r"password|secret|key\.pem|jaas|oauthbearer\.config|token", re.IGNORECASE)


RELIED_ON = frozenset({
    "acks",
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "group.id",
    "group.protocol",
    "isolation.level",
    "partition.assignment.strategy",
    "transactional.id",
    "transaction.timeout.ms",
})  # fmt: skip
"""Settings that exactly-once and fencing rest on."""


@dataclass(frozen=True, slots=True)
class KafkaConfig:
    """``client`` passes through to librdkafka as it stands (TLS, SASL, time-outs): it wins over our own settings.
    Raises BadSettings where it names one that is ``RELIED_ON``.

    ``prefix`` goes before every topic, group and transactional id, so that several installations, or the tests, share
    one cluster.

    ``replication`` is how many copies of each partition the topics get; None leaves it to the brokers' default. Where
    it is set, all copies but one must have a record before it counts as written (min.insync.replicas): with the 3 of
    production a broker may be away, and one more may be lost, without a record going with them.
    """

    bootstrap_servers: str
    prefix: str = ""
    replication: int | None = None
    client: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if taken := sorted(RELIED_ON & self.client.keys()):
            raise BadSettings(
                f"kafka.client sets {', '.join(taken)}, which headwater's guarantees rest on.",
                kept="Nothing was started.",
                advice="Remove it from kafka.client.",
            )
        if self.replication is not None and self.replication < 1:
            raise BadSettings(
                f"kafka.replication is {self.replication}.",
                kept="Nothing was started.",
                advice="Set it to 3 in production, to 1 on a single broker.",
            )

    def __repr__(self) -> str:
        shown = {name: "***" if _SECRET.search(name) else value for name, value in self.client.items()}
        return f"KafkaConfig({self.bootstrap_servers!r}, prefix={self.prefix!r}, client={shown!r})"
