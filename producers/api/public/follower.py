"""Follows ``jobs.events`` from its end, in a thread: no group, no commits. Kafka may be away at any time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from headwater.connectors.kafka import offsets
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.following import Following
from headwater.observe import logs
from headwater.rules.errors import HeadwaterError
from headwater.schemas.topics import JOBS_EVENTS

log = logs.logger()

_READ_SECONDS = 0.25
"""How soon the thread notices that it is to stop."""
_PROBE_SECONDS = 0.5
_RETRY_SECONDS = 1.0
_LEAVE_SECONDS = 2.0
"""At the end of the process nobody waits longer for a client that waits for Kafka."""


class Follower:
    """Calls ``hear`` with the job and the value of each record, and ``begin`` whenever it follows anew: what happened
    before was not heard. Both are called in its thread, and must not raise."""

    def __init__(self, kafka: Kafka, hear: Callable[[str, bytes], None], begin: Callable[[], None]) -> None:
        self._kafka = kafka
        self._hear = hear
        self._begin = begin
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="follower", daemon=True)
        self.trouble = "Kafka was not reached yet."
        """Why nothing is heard now; empty: everything is."""

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stopping.set()
        self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except HeadwaterError as error:
                self._degrade(error.happened)
                self._stopping.wait(_RETRY_SECONDS)

    def _follow(self) -> None:
        """Returns when the process stops. Raises HeadwaterError where the log cannot be followed."""
        places = offsets.partitions(self._kafka, JOBS_EVENTS.name)
        following = Following(self._kafka, offsets.ends(self._kafka, places))
        try:
            self._begin()
            while not self._stopping.is_set():
                for message in following.read(_READ_SECONDS):
                    job, value = message.key(), message.value()
                    if job is not None and value is not None:
                        self._hear(job.decode(errors="replace"), value)
                self._notice_silence(following)
        finally:
            following.close()

    def _notice_silence(self, following: Following) -> None:
        if self._kafka.silent_since() is None or following.broker_answers(_PROBE_SECONDS):
            self._kafka.answered()
            self._recover()
        else:
            self._degrade(f"Kafka at {self._kafka.config.bootstrap_servers} does not answer.")

    def _degrade(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("follower.degraded", reason=trouble, kept="Streams go on from the catalog.")
        self.trouble = trouble

    def _recover(self) -> None:
        if self.trouble:
            log.info("follower.follows")
        self.trouble = ""
