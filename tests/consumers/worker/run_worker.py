"""A worker as a process of its own: its settings as JSON in the first argument. SIGTERM drains it."""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import time
from pathlib import Path

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.client import Web
from headwater.connectors.web.config import WebConfig
from headwater.consumers.worker.config import WorkerConfig
from headwater.consumers.worker.worker import Worker
from headwater.observe import logs
from headwater.rules.errors import HeadwaterError

faulthandler.register(signal.SIGUSR1)
logs.configure()
said = json.loads(sys.argv[1])
config = WorkerConfig(**said["worker"] | {"work_folder": Path(said["worker"]["work_folder"])})
kafka = Kafka(KafkaConfig(bootstrap_servers=said["kafka"], prefix=said["prefix"]))
web = Web(WebConfig(allow_http=True, allow_networks=("127.0.0.0/8",)))
try:
    worker = Worker(
        config,
        pool=said["pool"],
        model=said["model"],
        kafka=kafka,
        store=ObjectStore(S3Config.from_url(said["s3"])),
        web=web,
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.drain())
    with worker:
        while not worker.ended():
            time.sleep(0.05)
    if worker.failure is not None:
        raise worker.failure
except HeadwaterError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    sys.exit(1)
