"""A relay in a process of its own, which is killed when it comes to a step: ``DSN SERVERS PREFIX STEP``."""

from __future__ import annotations

import os
import signal
import sys

from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.streams.outbox.relay import Relay


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(dsn: str, servers: str, prefix: str, step: str) -> None:
    relay = Relay(JobsDatabase(JobsConfig(dsn=dsn)), Kafka(KafkaConfig(servers, prefix=prefix)))
    setattr(relay, step, die)
    while True:
        relay.round()


if __name__ == "__main__":
    main(*sys.argv[1:])
