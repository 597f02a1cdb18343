"""What a process of ours shows while it runs: HTTP with its metrics, health and schemas, at a known place."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headwater.observe import metrics
from headwater.observe.http import Health, ProcessServer
from headwater.schemas.registry import Registry
from headwater.schemas.topics import catalogue
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.connectors.kafka.client import Kafka
    from headwater.schemas.records import Stage
    from headwater.streams.runtime.state import MemberState


def address_file(state_folder: Path, name: str, pid: int) -> Path:
    """Where a process leaves its address. Several members of a group may run on a host: the pid tells them apart."""
    return state_folder / "run" / f"{name}.{pid}.http"


@contextmanager
def serving(settings: Settings, name: str, health: Callable[[], Health]) -> Iterator[ProcessServer]:
    """Serve while the block runs. ``health`` is called in another thread."""
    _watch_disk(settings.state_folder)
    file = address_file(settings.state_folder, name, os.getpid())
    with ProcessServer(settings.http, registry_of(settings), health, file) as server:
        yield server


@contextmanager
def speaking(kafka: Kafka, group: str, stage: Stage, health: Callable[[], Health]) -> Iterator[None]:
    """Say to the fleet, every few seconds while the block runs, how this member of ``group`` is and what it did."""
    from headwater.connectors.kafka.telemetry import Telemetry
    from headwater.observe.telemetry import Speaker

    with Telemetry(kafka, Speaker(group, stage), health):
        yield


class Stoppable(Protocol):
    """The work of a process. ``stop`` lets ``run`` come to its end, draining what is in hand; safe from any thread."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


def run_until_signalled(work: Stoppable) -> None:
    """Run it as this process's work, in its main thread, until it ends by itself or SIGTERM or SIGINT stops it."""
    from headwater.streams.runtime.garbage import spare_collector

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: work.stop())
    spare_collector()
    work.run()


def health_of(read: Callable[[], MemberState]) -> Callable[[], Health]:
    """What a member of a group says of itself, as health."""
    from headwater.streams.runtime.state import Phase

    def health() -> Health:
        state = read()
        return Health(state.phase is not Phase.degraded, state.phase, state.reason, asdict(state))

    return health


def _watch_disk(folder: Path) -> None:
    """The disk of the state folder, looked at whenever somebody asks for the metrics."""
    metrics.STATE_FREE_BYTES.set_function(lambda: _usage(folder)[0])
    metrics.STATE_SIZE_BYTES.set_function(lambda: _usage(folder)[1])


def _usage(folder: Path) -> tuple[float, float]:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:  # unmounted: the other metrics are wanted all the more
        return 0.0, 0.0
    return usage.free, usage.total


def registry_of(settings: Settings) -> Registry:
    """The registry with the subjects of this site's topics."""
    prefix = settings.kafka.prefix if settings.kafka else ""
    names = [f"{prefix}{topic.name}" for topic in catalogue((settings.site,))]
    return Registry(lambda: names)
