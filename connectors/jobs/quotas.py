"""What a tenant may still submit: requests a minute, unfinished jobs, GPU seconds a day.

One row of ``allowances`` a tenant, and only for tenants that have a limit. It is locked for as long as a statement
takes, since nothing of it waits for a disk, and ``take`` is called in a transaction of its own: two hundred requests a
second of one tenant do not wait for each other's commits. For that it is a little generous: it counts unfinished jobs
anew now and then, not with each request, and misses those that are being committed at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from headwater.connectors.jobs.database import Transaction
from headwater.connectors.jobs.tenants import Tenant

_WINDOW_SECONDS = 60.0
"""Of the rate: a tenant that was quiet may send a minute's requests at once."""


class Quota(StrEnum):
    requests_per_minute = "requests_per_minute"
    max_queued = "max_queued"
    gpu_seconds_per_day = "gpu_seconds_per_day"


@dataclass(frozen=True, slots=True)
class Rate:
    """What is left of a minute's requests, and in how many seconds all of them are there again."""

    limit: int
    left: int
    reset_seconds: float


@dataclass(frozen=True, slots=True)
class Allowance:
    """``refused``: the quota that has no room, and when it may have; None: one was taken of each. ``rate``: for tenants
    whose rate is limited."""

    refused: Quota | None = None
    retry_after_seconds: float = 0.0
    rate: Rate | None = None


_FRESH = """
    counted_at > now() - make_interval(secs => least(30, 1 + unfinished * 0.0002))
    AND counted_at >= date_trunc('day', now(), 'UTC')
"""
"""Counting takes the longer, the more there is."""
_TAKE = f"""
    UPDATE allowances SET next_at = greatest(next_at, now()) + make_interval(secs => %(interval)s),
        unfinished = unfinished + 1, seconds = seconds + %(cost)s
    WHERE tenant = %(tenant)s
        AND {_FRESH}
        AND greatest(next_at, now()) + make_interval(secs => %(interval)s) <= now() + make_interval(secs => %(window)s)
        AND coalesce(unfinished < %(max_queued)s, true)
        AND coalesce(used + seconds + %(cost)s <= %(gpu_seconds)s, true)
    RETURNING extract(epoch FROM next_at - now())::float8
"""
_COUNT = """
    INSERT INTO allowances AS a (tenant, unfinished, seconds, used, counted_at)
    SELECT %(tenant)s, count(*), coalesce(sum(cost_seconds), 0), coalesce((
        SELECT gpu_seconds FROM usage WHERE tenant = %(tenant)s AND day = (now() AT TIME ZONE 'UTC')::date), 0), now()
    FROM jobs WHERE tenant = %(tenant)s AND completed_at IS NULL
    ON CONFLICT (tenant) DO UPDATE SET unfinished = excluded.unfinished, seconds = excluded.seconds,
        used = excluded.used, counted_at = greatest(a.counted_at, excluded.counted_at)
"""
_LOOK = f"""
    SELECT {_FRESH}, greatest(0, extract(epoch FROM next_at - now()))::float8, unfinished, seconds + used,
        extract(epoch FROM date_trunc('day', now(), 'UTC') + interval '1 day' - now())::float8
    FROM allowances WHERE tenant = %s
"""


def take(transaction: Transaction, tenant: Tenant, cost_seconds: float) -> Allowance:
    """One request for a job of so many GPU seconds; a refused one takes nothing. Call it in ``quiet()``."""
    if not tenant.limited:
        return Allowance()
    limit = tenant.requests_per_minute
    values: dict[str, Any] = {
        "tenant": tenant.tenant,
        "interval": _WINDOW_SECONDS / limit if limit else 0.0,
        "window": _WINDOW_SECONDS,
        "cost": cost_seconds,
        "max_queued": tenant.max_queued,
        "gpu_seconds": tenant.gpu_seconds_per_day,
    }
    taken = transaction.execute(_TAKE.encode(), values).fetchone()
    if taken is None:
        found = _look(transaction, tenant)
        if found is not None and found.fresh:
            return _refusal(found, tenant, cost_seconds)
        transaction.execute(_COUNT, values)
        taken = transaction.execute(_TAKE.encode(), values).fetchone()
    if taken is not None:
        return Allowance(rate=_rate(limit, taken[0]))
    found = _look(transaction, tenant)
    assert found is not None
    return _refusal(found, tenant, cost_seconds)


class _Found(NamedTuple):
    fresh: bool
    owed_seconds: float
    unfinished: int
    seconds: float
    until_midnight: float


def _look(transaction: Transaction, tenant: Tenant) -> _Found | None:
    row = transaction.execute(_LOOK.encode(), [tenant.tenant]).fetchone()
    return None if row is None else _Found(*row)


def _refusal(found: _Found, tenant: Tenant, cost_seconds: float) -> Allowance:
    limit = tenant.requests_per_minute
    rate = _rate(limit, found.owed_seconds)
    if tenant.max_queued is not None and found.unfinished >= tenant.max_queued:
        return Allowance(Quota.max_queued, _WINDOW_SECONDS, rate)
    if tenant.gpu_seconds_per_day is not None and found.seconds + cost_seconds > tenant.gpu_seconds_per_day:
        return Allowance(Quota.gpu_seconds_per_day, found.until_midnight, rate)
    interval = _WINDOW_SECONDS / limit if limit else 0.0
    return Allowance(Quota.requests_per_minute, max(0.0, found.owed_seconds + interval - _WINDOW_SECONDS), rate)


def _rate(limit: int | None, owed_seconds: float) -> Rate | None:
    """``owed_seconds``: until the bucket is full (the generic cell rate algorithm, ITU-T I.371)."""
    if limit is None:
        return None
    owed = max(0.0, owed_seconds)
    return Rate(limit, int((_WINDOW_SECONDS - owed) * limit / _WINDOW_SECONDS + 1e-6), owed)
