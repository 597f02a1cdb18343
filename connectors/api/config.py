"""Where the HTTP service is, for those who submit jobs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    url: str | None = None
    """None: the service of this host, at ``api.port``."""
    key: str = field(default="", repr=False)
    """The tenant's API key: hw_ and 43 characters."""
    connect_seconds: float = 5.0
    request_seconds: float = 30.0
