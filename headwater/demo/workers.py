"""The demo's workers: each a `headwater worker` with the test card, a process of its own."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from headwater.demo.commands import CommandLine
from headwater.demo.workplace import Workplace
from headwater.rules.errors import Unavailable
from headwater.stack import processes

MODEL = "testcard"


class Workers:
    """As a context manager it ends those that run. ``pool``: the one that they serve."""

    def __init__(self, place: Workplace, headwater: CommandLine, pool: str) -> None:
        self._place = place
        self._headwater = headwater
        self._pool = pool
        self._wanted: set[str] = set()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with ThreadPoolExecutor(max(1, len(self._wanted))) as pool:
            list(pool.map(lambda name: processes.stop(self.process(name), self._place.state), self._wanted))

    def start(self, name: str, *options: str) -> None:
        """``options`` are the model's, as name=value."""
        given = (word for option in options for word in ("--option", option))
        arguments = ("worker", "--pool", self._pool, "--model", MODEL, "--name", name, *given)
        self._headwater.start(self.process(name), *arguments)
        self._wanted.add(name)

    def kill(self, name: str) -> int:
        """By kill -9; returns its pid."""
        self.require_alive()
        running = processes.alive(self.process(name), self._place.state)
        assert running is not None
        self._wanted.discard(name)
        os.kill(running.pid, signal.SIGKILL)
        return running.pid

    def require_alive(self) -> None:
        """Raises Unavailable where one that should run has ended by itself."""
        for name in sorted(self._wanted):
            if processes.alive(self.process(name), self._place.state) is None:
                log = processes.log_path(self.process(name), self._place.state)
                raise Unavailable(
                    f"worker {name} has ended by itself: {processes.last_line(log)}",
                    asked="Videos were being made.",
                    kept=f"All state is kept in {self._place.state}.",
                    advice=f"See {log}.",
                )

    @staticmethod
    def process(name: str) -> str:
        return f"worker-{name}"
