"""Where jobs are kept."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.connectors.catalog.config import CatalogConfig, without_password


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsConfig(CatalogConfig):
    """Jobs have a schema of their own, ``jobs``, and may have a server of their own: ``dsn`` is by default the
    catalog's. How long a lease lasts is here, because those who grant, beat and expire must agree on it."""

    dsn: str = ""
    connections: int = 16
    """Most connections of one process. The HTTP service answers in as many threads; others use two or three."""
    connect_seconds: float = 2.0
    """A request waits so long for a connection before it hears that the database is away."""
    statement_seconds: float = 20.0
    """The server ends a statement that takes longer: its locks would hold up everybody's."""
    idle_seconds: float = 10.0
    """The server ends a transaction in which nothing happens for so long: of a process that was stopped in one."""
    lease_seconds: float = 10.0
    """So long after the last beat of its worker a job is granted again. Beats come every third of it."""
    serve: bool = True
    """``headwater up`` runs the job service here: api, dispatch, outbox, sweep, webhooks."""

    def __post_init__(self) -> None:
        if self.lease_seconds <= 0:
            raise ValueError("lease_seconds must be more than 0")

    def __repr__(self) -> str:
        return f"JobsConfig({without_password(self.dsn)!r}, lease_seconds={self.lease_seconds})"
