"""A worker: lives on this host under a name, one incarnation after another, until it is drained.

It begins anew where it stood still for longer than a lease: what it held may be another's by then, and its models
compute for nobody. Everything old is killed and forgotten, and nothing of it is ever told to anyone.
"""

from __future__ import annotations

import shutil
from threading import Event, Thread

from headwater.connectors.api.endpoint import Endpoint
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.models.described import described
from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.client import Web
from headwater.consumers.worker.config import WorkerConfig
from headwater.consumers.worker.incarnation import End, Incarnation
from headwater.consumers.worker.names import Name
from headwater.observe import logs
from headwater.observe.http import Health
from headwater.rules.errors import BadSettings, HeadwaterError

log = logs.logger()


class Worker:
    """Runs while its block does; leaving the block drains it. ``failure``: why it ended of itself.

    ``model``: a back end or a file, see connectors/models/described.py. Raises BadSettings without an endpoint or with
    a wrong model, Refused where the name is another process's.
    """

    def __init__(
        self, config: WorkerConfig, *, pool: str, model: str, kafka: Kafka, store: ObjectStore, web: Web
    ) -> None:
        if config.endpoint is None:
            raise BadSettings(
                "worker.endpoint is not set.",
                asked="A worker was to be started.",
                kept="Nothing was started.",
                advice="Set it to the internal address of `headwater api` (HEADWATER_WORKER__ENDPOINT).",
                key="worker.endpoint",
            )
        self.config = config
        self.failure: Exception | None = None
        self._pool, self._model = pool, described(model, config.options)
        self._kafka, self._store, self._web = kafka, store, web
        self._endpoint = Endpoint(config.endpoint, config.key)
        self._name = Name(config.work_folder, pool, config.name)
        self._ending = Event()
        self._life: Incarnation | None = None
        # Its hosts die with the thread that started them.
        self._thread = Thread(target=self._run, name="supervisor", daemon=True)

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drain()
        self._thread.join()
        self._endpoint.close()
        self._name.close()

    @property
    def name(self) -> str:
        return self._name.text

    def drain(self) -> None:
        """Take nothing new, let finish what can, give back the rest. From any thread, and from a signal's handler."""
        self._ending.set()

    def ended(self) -> bool:
        """It has drained, or failed."""
        return not self._thread.is_alive()

    def health(self) -> Health:
        life = self._life
        facts = life.facts if life is not None else {"worker": self.name}
        if self.failure is not None:
            return Health(False, "stopping", str(self.failure), facts)
        if life is None:
            return Health(True, "starting", "", facts)
        if life.trouble:
            return Health(False, "degraded", life.trouble, facts)
        if self._ending.is_set():
            return Health(True, "draining", "", facts)
        return Health(True, "running" if life.ready else "loading", "", facts)

    def _run(self) -> None:
        folder, number = self.config.work_folder / self.name, 0
        try:
            end: End | None = None
            while end is not End.drained:
                shutil.rmtree(folder, ignore_errors=True)
                # Unknown, it asks under its old number: where a namesake that is newer took its place, it is refused.
                number = number if end is End.unknown else self._name.next_incarnation()
                self._life = self._begin(number)
                end = self._life.run()
                log.info("worker.life_ended", worker=self.name, why=end.value)
        except Exception as error:
            log.error("worker.failed", error=str(error), exc_info=not isinstance(error, HeadwaterError))
            self.failure = error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _begin(self, number: int) -> Incarnation:
        return Incarnation(
            self.config,
            name=self.name,
            number=number,
            pool=self._pool,
            model=self._model,
            endpoint=self._endpoint,
            kafka=self._kafka,
            store=self._store,
            web=self._web,
            ending=self._ending,
        )
