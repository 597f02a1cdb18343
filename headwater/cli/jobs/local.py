"""What `headwater up` puts into the database of jobs: its tables, and on the local stack what one needs to begin."""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_bytes

from headwater.cli.frame import Frame

TENANT, POOL = "local", "demo"
"""Of the local stack. Its key is with the stack's other secrets, so that commands on this machine use it unasked."""


def prepare(the: Frame) -> Iterator[str]:
    """What was done, in words. Safe to repeat."""
    from headwater.stack.home import local_variables

    if applied := the.jobs.migrate():
        yield f"jobs      applied {', '.join(applied)}"
    local = local_variables(the.settings.state_folder)
    if local.get("HEADWATER_POSTGRES") == the.settings.needed_jobs().dsn and _begin(
        the, local["HEADWATER_CLIENT__KEY"]
    ):
        yield f"jobs      made the pool {POOL} and the tenant {TENANT}"


def _begin(the: Frame, key: str) -> bool:
    from headwater.connectors.jobs import pools, tenants
    from headwater.rules.jobs import keys, webhooks

    with the.jobs.quiet() as transaction:
        pools.ensure(transaction, POOL)
        made = tenants.ensure(transaction, TENANT)
        if made:
            secret = webhooks.new_secret(token_bytes(_SECRET_BYTES))
            tenants.set_tenant(transaction, TENANT, {"webhook_secrets": [secret]})
        tenants.add_key(transaction, TENANT, keys.key_hash(key), keys.key_hint(key))
    return made


_SECRET_BYTES = 32
