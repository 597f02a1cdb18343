"""The endpoint with what goes on beside its requests: its tick, without which no lease expires, and progress."""

from __future__ import annotations

from threading import Event, Thread

from fastapi import FastAPI

from headwater.connectors.jobs import expiry
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.kafka.client import Kafka
from headwater.observe import logs
from headwater.producers.api.endpoint.app import endpoint_app
from headwater.producers.api.endpoint.progress import Progress
from headwater.rules.errors import BadSettings, HeadwaterError
from headwater.rules.jobs.failures import FailurePolicy

log = logs.logger()

_TICK_SECONDS = 1.0


class Endpoint:
    """``app`` may be served inside its block. ``trouble`` says why beats cannot be written; empty where they can."""

    def __init__(self, key: str, database: JobsDatabase, kafka: Kafka, policy: FailurePolicy) -> None:
        """``key``: the secret of workers. Raises BadSettings where there is none."""
        if not key:
            raise BadSettings(
                "worker.key is not set.",
                asked="The endpoint of workers was to be opened.",
                kept="Nothing was started.",
                advice="Set HEADWATER_WORKER__KEY, or worker.key_file, to the same secret here and on all workers; "
                "`openssl rand -hex 32` makes a good one.",
                key="worker.key",
            )
        self._database = database
        self._progress = Progress(kafka)
        self.app: FastAPI = endpoint_app(key, database, policy, self._progress)
        self.trouble = ""
        self._ending = Event()
        self._thread = Thread(target=self._tick, name="endpoint-tick", daemon=True)

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._progress.close()

    def _tick(self) -> None:
        """Says in the catalog that workers are heard: while nobody says it, no lease expires."""
        while True:
            try:
                with self._database.quiet() as transaction:
                    expiry.tick(transaction, expiry.ENDPOINT)
                self.trouble = ""
            except HeadwaterError as error:
                self.trouble = str(error)
                log.warning("endpoint.cannot_tick", error=str(error))
            self._progress.pump()
            if self._ending.wait(_TICK_SECONDS):
                return
