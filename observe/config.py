"""Settings of what a process shows of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where a process serves. The default is for one host; Prometheus on another host needs 0.0.0.0."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: a free port, named in ``<state folder>/run/<process>.http``."""
