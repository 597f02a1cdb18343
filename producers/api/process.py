"""The process ``headwater api``: the public port for tenants, the internal port for workers.

Both are stateless: what they know is in the catalog, and any number of these processes may run beside each other.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack
from functools import partial
from threading import Event
from typing import Any

from fastapi import FastAPI

from headwater.observe.http import Health
from headwater.producers.api.config import ApiConfig
from headwater.producers.api.server import Server


class Api:
    """Serves inside its block, or while ``run`` runs."""

    def __init__(self, config: ApiConfig, *, public: FastAPI, internal: FastAPI) -> None:
        self._stopping = Event()
        self._parts = ExitStack()
        opened = partial(Server, threads=config.threads, drain_seconds=config.drain_seconds)
        self._public = opened("public", public, config.host, config.port)
        self._internal = opened("internal", internal, config.internal_host, config.internal_port)

    @property
    def url(self) -> str:
        """Where tenants find it on this host."""
        return self._public.url

    @property
    def internal_url(self) -> str:
        """Where workers do."""
        return self._internal.url

    def health(self) -> Health:
        return Health(True, "running")

    def stop(self) -> None:
        """``run`` returns when what is under way is answered. From any thread, and from a signal's handler."""
        self._stopping.set()

    def run(self) -> None:
        with self:
            self._stopping.wait()

    def __enter__(self) -> Api:
        with ExitStack() as parts:
            for part in (self._internal, self._public):
                parts.enter_context(part)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: Any) -> None:
        self._public.stop()  # both drain at once
        self._parts.close()


def run_until_signalled(api: Api) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: api.stop())
    api.run()
