"""Settings of the HTTP service."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """The defaults serve one host: behind a proxy that ends TLS, set ``public_url`` to what clients see."""

    host: str = "127.0.0.1"
    port: int = 18080
    """0: a free port."""
    internal_host: str = "127.0.0.1"
    internal_port: int = 18081
    """Workers claim, beat and complete here. Keep it inside the fleet's network."""
    public_url: str | None = None
    """What ``Location`` and the OpenAPI document begin with. None: the address that the request named."""
    body_bytes: int = 256 * 1024
    """The largest request: a prompt and its parameters are text; what is large comes by ``input_url``."""
    threads: int = 16
    """Requests of each port that wait for the database at once; each needs one of ``jobs.connections``."""
    streams: int = 5_000
    """Open streams of events of one process; each is a connection and some 30 kB."""
    drain_seconds: float = 10.0
    """At the end, requests under way may finish for so long. Streams of events are closed at once: they resume."""
    key_seconds: float = 5.0
    """How long a process believes what it read of a key and its tenant: a revoked key works for so long."""
    content_seconds: float = 3_600.0
    """How long the address of a result is valid."""
