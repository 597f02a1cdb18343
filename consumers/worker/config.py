"""Settings of a worker: who it is, what it may hold, and how long it waits for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Section ``[worker]``. ``key`` comes from HEADWATER_WORKER__KEY, or from a file that ``key_file`` names."""

    key: str = ""
    """The secret that workers show the internal endpoint."""
    endpoint: str | None = None
    """The address of the internal endpoint. None: that of the API on this host."""
    name: str | None = None
    """The worker's name. None: the host's name, the pool and the first number that is free on this host; a restarted
    worker so takes the name of its predecessor, whose jobs are then granted anew at once."""
    work_folder: Path = Path("work")
    """Outputs and checkpoints until they are in S3."""
    slots: int = 1
    """Jobs at once. A model that takes batches runs them in one process, else each slot has a process of its own."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the model back end is told: see connectors/models."""
    finishing: int = 2
    """Threads that probe, make thumbnails and upload. Twice as many jobs may wait for them per slot; beyond that slots
    stay taken."""
    cut_off_terms: float = 3.0
    """Without an answer of the endpoint a worker computes on for so many terms of its lease, then gives up. Its jobs
    may be another's by then; results that come late are refused, so this only weighs lost work against double work."""
    drain_seconds: float = 60.0
    """On SIGTERM jobs may finish for so long; then they are given back with their checkpoints. Below the time that the
    supervisor of processes (systemd, Kubernetes) grants."""
    stop_seconds: float = 5.0
    """A model that was told to stop and has not by then is killed."""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"worker.slots is {self.slots}; a worker has at least 1")

    def __repr__(self) -> str:
        return f"WorkerConfig(endpoint={self.endpoint!r}, name={self.name!r}, slots={self.slots}, key=***)"
