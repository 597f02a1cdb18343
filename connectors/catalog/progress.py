"""How far each source and each dataset has come: counters that were kept with the state changes; no row is counted.

Only exceptions and what is put off are, up to a limit: they are few, or something is badly wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from headwater.connectors.catalog.client import Transaction
from headwater.connectors.catalog.deferred import PutOff, put_off
from headwater.connectors.catalog.exceptions import excepted
from headwater.rules.identity import display

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
    weak: int
    """Files that were read where nothing proved that nobody wrote to them."""
    condemned: int
    exceptions: int
    """At most ``EXCEPTIONS_COUNTED``: then there are as many or more."""
    exceptions_by: dict[str, int]
    """The same by class, the first word of their reasons: busy, unreadable, …"""
    example: str
    """Path and reason of the one that waits longest, for people; empty where there is none."""
    halted: str
    """Why deletes wait for consent; empty where none do."""
    put_off: PutOff | None
    """Contents that wait for the root to be there again; None where none do."""


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
               coalesce((SELECT h.reason FROM source_halts h WHERE h.source = s.source), '')
        FROM sources s ORDER BY s.source
        """
    )
    waiting = put_off(transaction)
    found = []
    for source, site, dataset, agent, silent_seconds, halted in rows.fetchall():
        of_source = counters.get(source, {})
        by_class = _exceptions(transaction, source)
        oldest = excepted(transaction, source, 1) if by_class else []
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
                weak=of_source.get("weak_files", 0),
                condemned=of_source.get("objects_condemned", 0),
                exceptions=sum(by_class.values()),
                exceptions_by=by_class,
                example=f"{display(oldest[0].path)}: {oldest[0].reason}" if oldest else "",
                halted=halted,
                put_off=waiting.get(source),
            )
        )
    return tuple(found)


def _exceptions(transaction: Transaction, source: str) -> dict[str, int]:
    """Numbers of excepted paths by class, most first, among the first ``EXCEPTIONS_COUNTED``."""
    rows = transaction.execute(
        "SELECT split_part(reason, ':', 1), count(*) FROM "
        "(SELECT reason FROM exceptions WHERE source = %s AND active LIMIT %s) few GROUP BY 1 ORDER BY 2 DESC, 1",
        [source, EXCEPTIONS_COUNTED],
    )
    return dict(rows.fetchall())


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
