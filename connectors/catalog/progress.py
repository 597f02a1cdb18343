"""How far each source and each dataset has come: counters that were kept with the state changes; no row is counted.

Only the exceptions are, up to a limit: they are few, or something is badly wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headwater.connectors.catalog.client import Transaction

EXCEPTIONS_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of files or distinct contents, and their bytes."""

    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """``found`` counts the paths of the source as they are now; the others count distinct contents that reached a
    state: what is claimed and not stored is being sent, what is stored and not verified is being read back.

    ``silent_seconds`` is the age of the agent's last heartbeat, None after its goodbye.
    """

    source: str
    site: str
    dataset: str
    agent: str
    silent_seconds: float | None
    found: Amount
    claimed: Amount
    stored: Amount
    verified: Amount
    condemned: int
    exceptions: int
    """At most ``EXCEPTIONS_COUNTED``: then there are as many or more."""


@dataclass(frozen=True, slots=True)
class DatasetProgress:
    """``uncommitted`` counts changes since the newest version; ``version`` 0: none was published yet."""

    dataset: str
    version: int
    commit_id: str | None
    published_at: datetime | None
    files: int
    bytes: int
    uncommitted: int


@dataclass(frozen=True, slots=True)
class Progress:
    sources: tuple[SourceProgress, ...]
    datasets: tuple[DatasetProgress, ...]


def progress(transaction: Transaction) -> Progress:
    """Every source and dataset of the catalog, as one moment has them."""
    counters: dict[str, dict[str, int]] = {}
    for source, name, value in transaction.execute("SELECT source, name, value FROM counters"):
        counters.setdefault(source, {})[name] = value
    return Progress(_sources(transaction, counters), _datasets(transaction))


def _sources(transaction: Transaction, counters: dict[str, dict[str, int]]) -> tuple[SourceProgress, ...]:
    rows = transaction.execute(
        """
        SELECT s.source, s.site, s.dataset, s.agent,
               CASE WHEN s.stopped_at IS NULL THEN extract(epoch FROM now() - s.heartbeat_at)::float8 END,
               (SELECT count(*) FROM (SELECT 1 FROM exceptions e WHERE e.source = s.source AND e.active LIMIT %s) few)
        FROM sources s ORDER BY s.source
        """,
        [EXCEPTIONS_COUNTED],
    )
    found = []
    for source, site, dataset, agent, silent_seconds, exceptions in rows:
        of_source = counters.get(source, {})
        found.append(
            SourceProgress(
                source,
                site,
                dataset,
                agent,
                silent_seconds,
                found=_amount(of_source, "files", "bytes"),
                claimed=_amount(of_source, "objects_claimed", "bytes_claimed"),
                stored=_amount(of_source, "objects_stored", "bytes_stored"),
                verified=_amount(of_source, "objects_verified", "bytes_verified"),
                condemned=of_source.get("objects_condemned", 0),
                exceptions=exceptions,
            )
        )
    return tuple(found)


def _amount(counters: dict[str, int], count: str, size: str) -> Amount:
    return Amount(counters.get(count, 0), counters.get(size, 0))


def _datasets(transaction: Transaction) -> tuple[DatasetProgress, ...]:
    rows = transaction.execute(
        """
        SELECT d.dataset, d.head, d.head_commit, v.published_at, d.files, d.content_bytes, d.uncommitted
        FROM datasets d LEFT JOIN versions v ON v.dataset = d.dataset AND v.version = d.head
        ORDER BY d.dataset
        """
    )
    return tuple(DatasetProgress(*row) for row in rows)
