"""What a process of ours shows while it runs: HTTP with its metrics, health and schemas, at a known place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.observe.http import Health, ProcessServer
from headwater.schemas.registry import Registry
from headwater.schemas.topics import catalogue
from headwater.settings import Settings


def address_file(state_folder: Path, name: str, pid: int) -> Path:
    """Where a process leaves its address. Several members of a group may run on a host: the pid tells them apart."""
    return state_folder / "run" / f"{name}.{pid}.http"


@contextmanager
def serving(settings: Settings, name: str, health: Callable[[], Health]) -> Iterator[ProcessServer]:
    """Serve while the block runs. ``health`` is called in another thread."""
    file = address_file(settings.state_folder, name, os.getpid())
    with ProcessServer(settings.http, registry_of(settings), health, file) as server:
        yield server


def registry_of(settings: Settings) -> Registry:
    """The registry with the subjects of this site's topics."""
    prefix = settings.kafka.prefix if settings.kafka else ""
    names = [f"{prefix}{topic.name}" for topic in catalogue((settings.site,))]
    return Registry(lambda: names)
