"""Keeps the views running (``headwater run views``): Faust in a thread, watched by one that does not depend on it.

Whatever ends Faust, or makes it alive and silent, ends that application: after a pause a new one goes on from the
committed offset and the table's changelog. One that cannot even be ended takes the process with it, for the service
manager to start anew. So it goes on, or is gone, within ``STUCK_SECONDS + END_SECONDS`` of the log's being there.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import suppress
from random import Random
from threading import Event, Thread

from confluent_kafka import KafkaException, TopicPartition

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.topics import verify_topics
from headwater.observe import logs
from headwater.rules.errors import Permanent, Unavailable
from headwater.schemas.topics import FLEET_TELEMETRY, VIEWS_GROUPS, VIEWS_SAMPLES, VIEWS_STAGES
from headwater.streams.runtime.backoff import full_jitter
from headwater.streams.runtime.state import MemberState, Phase, StateBoard
from headwater.streams.views.views import GROUP, Views
from headwater.streams.views.watchdog import Watchdog

log = logs.logger()

STUCK_SECONDS = 60.0
"""Every process speaks every five seconds, this one too: a minute without a word read is no pause."""

END_SECONDS = 10.0
"""An application that leaves its group and closes its connections needs one or two."""

_GLANCE_SECONDS = 0.1
_WATCH_SECONDS = 5.0
_PROBE_SECONDS = 2.0
_RETRY_BASE_SECONDS, _RETRY_MOST_SECONDS = 1.0, 15.0
_KAFKA, _FAUST = "kafka", "faust"


class ViewsProcess:
    """``run`` it in the main thread; ``stop`` and ``state`` are safe from any."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._stopping = Event()
        self._board = StateBoard(GROUP, time.time)
        self._random = Random()
        self._place = TopicPartition(kafka.physical(FLEET_TELEMETRY), 0)
        self._reader = kafka.consumer(GROUP)

    def state(self) -> MemberState:
        return self._board.read("", ((FLEET_TELEMETRY.name, 0),))

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Serve until ``stop``. Raises TopicMismatch or BadSettings for what a person must mend, and at the start also
        Unavailable or Refused, where the cluster was never seen."""
        verify_topics(self._kafka, (FLEET_TELEMETRY, VIEWS_SAMPLES, VIEWS_STAGES, VIEWS_GROUPS))
        failures = 0
        while not self._stopping.is_set():
            application = Application(self._kafka)
            application.start()
            try:
                why = self._watch(application)
            finally:
                application.end()
            if why:
                failures = 0 if application.taken else failures + 1
                self._start_over_after(why, failures)
        self._board.enter(Phase.stopped)
        self._reader.close()

    def _watch(self, application: Application) -> str:
        """The main loop. Returns why the application must be replaced; nothing once it is to stop."""
        watchdog = Watchdog(STUCK_SECONDS)
        due = time.monotonic()
        while not self._stopping.wait(_GLANCE_SECONDS):
            if application.failure is not None:
                if isinstance(application.failure, Permanent):
                    raise application.failure
                return f"{type(application.failure).__name__}: {application.failure}"
            if application.started:
                self._board.enter(Phase.running)
                self._board.recover(_FAUST)
            if time.monotonic() >= due:
                due = time.monotonic() + _WATCH_SECONDS
                ends = self._ends()
                if ends is None:
                    watchdog.forgive()
                # Where another member of the group does the reading, this one waits for its place and is well.
                elif watchdog.is_stuck(time.monotonic(), end=ends[0], committed=ends[1], taken=application.taken):
                    return f"nothing was read for {STUCK_SECONDS:.0f} s, although more is on the log"
        self._board.enter(Phase.draining)
        return ""

    def _ends(self) -> tuple[int, int] | None:
        """Where the log ends, and where the group has read to, or begins; None while Kafka does not answer."""
        try:
            beginning, end = self._reader.get_watermark_offsets(self._place, timeout=_PROBE_SECONDS, cached=False)
            [committed] = self._reader.committed([self._place], timeout=_PROBE_SECONDS)
        except KafkaException as error:
            self._board.degrade(_KAFKA, str(self._kafka.mapped(error)))
            return None
        self._board.recover(_KAFKA)
        return end, max(beginning, committed.offset)

    def _start_over_after(self, why: str, failures: int) -> None:
        self._board.degrade(_FAUST, f"The views start over: {why}.")
        log.warning("views.starting_over", why=why, kept="Their table and offsets are on the log.")
        pause = full_jitter(
            failures, base_seconds=_RETRY_BASE_SECONDS, most_seconds=_RETRY_MOST_SECONDS, random=self._random
        )
        self._stopping.wait(pause)


class Application:
    """One Faust application in a thread and an event loop of its own."""

    def __init__(self, kafka: Kafka) -> None:
        self.failure: BaseException | None = None
        self.started = False
        """It has joined its group and restored its table."""
        self.taken = 0
        self._kafka = kafka
        self._ending = Event()
        self._thread = Thread(target=self._run, name="views", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Leave the group and close. What cannot be ended ends the process: Faust's own threads would keep it alive."""
        self._ending.set()
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            log.error("views.hang", seconds=END_SECONDS, kept="Their table and offsets are on the log.")
            sys.stderr.flush()
            os._exit(Unavailable.exit_code)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._fail(error)

    async def _serve(self) -> None:
        views = Views(self._kafka, self._fail)
        starting = asyncio.ensure_future(views.app.start())
        try:
            while not self._ending.is_set() and self.failure is None:
                self.taken = views.taken
                if starting.done():
                    starting.result()
                    self.started = True
                if views.app.crashed:
                    raise views.app.crash_reason or Unavailable("Faust stopped")
                await asyncio.sleep(_GLANCE_SECONDS)
        finally:
            await views.app.stop()
            starting.cancel()
            with suppress(Exception, asyncio.CancelledError):
                await starting

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
