"""Where the catalog is."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """``dsn`` passes through to libpq (TLS, service files and password files work as there)."""

    dsn: str
    connections: int = 8
    """Most connections of one process: its worker threads plus one or two."""
    connect_seconds: float = 10.0

    def __repr__(self) -> str:
        return f"CatalogConfig({without_password(self.dsn)!r})"


def without_password(dsn: str) -> str:
    """The DSN fit for logs and errors."""
    hidden = re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", dsn)
    return re.sub(r"(password\s*=\s*)('[^']*'|\S+)", r"\1***", hidden)
