"""Tenants, their keys and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headwater.connectors.jobs import rows
from headwater.connectors.jobs.database import Transaction


@dataclass(frozen=True, slots=True)
class Tenant:
    """Limits that are None do not exist. ``webhook_secrets``: the newest first."""

    tenant: str
    weight: float
    max_running: int | None
    max_queued: int | None
    requests_per_minute: int | None
    gpu_seconds_per_day: float | None
    retention_days: int
    webhook_secrets: list[str] = field(repr=False)
    disabled_at: datetime | None
    created_at: datetime

    @property
    def disabled(self) -> bool:
        return self.disabled_at is not None

    @property
    def limited(self) -> bool:
        """Whether a submission of its is to be compared with anything."""
        return any(limit is not None for limit in (self.max_queued, self.requests_per_minute, self.gpu_seconds_per_day))


@dataclass(frozen=True, slots=True)
class Key:
    hash: bytes
    tenant: str
    hint: str
    created_at: datetime
    revoked_at: datetime | None


_COLUMNS = """
    SELECT t.tenant, t.weight, t.max_running, t.max_queued, t.requests_per_minute, t.gpu_seconds_per_day,
        t.retention_days, t.webhook_secrets, t.disabled_at, t.created_at
    FROM tenants t
"""
_SETTABLE = (
    "weight", "max_running", "max_queued", "requests_per_minute", "gpu_seconds_per_day", "retention_days",
    "webhook_secrets",
)  # fmt: skip


def of_key(transaction: Transaction, key_hash: bytes) -> Tenant | None:
    """Whose key that is; None for one that is unknown or revoked. The tenant may be disabled."""
    query = f"{_COLUMNS} JOIN api_keys k USING (tenant) WHERE k.hash = %s AND k.revoked_at IS NULL"
    found = rows.selected(transaction, Tenant, query, [key_hash])
    return found[0] if found else None


def get(transaction: Transaction, tenant: str) -> Tenant | None:
    found = rows.selected(transaction, Tenant, f"{_COLUMNS} WHERE t.tenant = %s", [tenant])
    return found[0] if found else None


def ensure(transaction: Transaction, tenant: str) -> bool:
    """The tenant exists from now on; False where it did."""
    done = transaction.execute("INSERT INTO tenants (tenant) VALUES (%s) ON CONFLICT DO NOTHING", [tenant])
    return bool(done.rowcount)


def set_tenant(transaction: Transaction, tenant: str, changes: Mapping[str, object]) -> None:
    """Changes weight, limits (None: no limit), retention_days or webhook_secrets, those that are given."""
    for name in _SETTABLE:
        if name in changes:
            transaction.execute(f"UPDATE tenants SET {name} = %s WHERE tenant = %s".encode(), [changes[name], tenant])


def disable(transaction: Transaction, tenant: str, *, disabled: bool) -> None:
    """A disabled tenant's keys open nothing; its jobs go on."""
    transaction.execute(
        "UPDATE tenants SET disabled_at = CASE WHEN %s THEN coalesce(disabled_at, now()) END WHERE tenant = %s",
        [disabled, tenant],
    )


def add_key(transaction: Transaction, tenant: str, key_hash: bytes, hint: str) -> None:
    """Said again, it changes nothing."""
    transaction.execute(
        "INSERT INTO api_keys (hash, tenant, hint) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", [key_hash, tenant, hint]
    )


def keys(transaction: Transaction, tenant: str) -> list[Key]:
    query = (
        "SELECT hash, tenant, hint, created_at, revoked_at FROM api_keys WHERE tenant = %s ORDER BY created_at, hash"
    )
    return rows.selected(transaction, Key, query, [tenant])


def revoke_key(transaction: Transaction, tenant: str, hint: str) -> int:
    """Revokes the tenant's keys that begin so; returns how many."""
    done = transaction.execute(
        "UPDATE api_keys SET revoked_at = now() WHERE tenant = %s AND hint = %s AND revoked_at IS NULL", [tenant, hint]
    )
    return done.rowcount
