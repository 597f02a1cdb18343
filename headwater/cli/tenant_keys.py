"""``headwater tenants key | revoke | secret``: what a tenant shows us, and what we sign with for it."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_bytes
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.rules.errors import NotFound

if TYPE_CHECKING:
    from headwater.connectors.jobs.database import Transaction
    from headwater.connectors.jobs.overview import TenantUse

Name = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]


def key(context: typer.Context, tenant: Name, as_json: AsJson = False) -> None:
    """Make another key. It is shown now, and never again.

    Those before stay valid until `headwater tenants revoke`.
    """
    with frame.of(context).jobs.quiet() as transaction:
        made = new_key(transaction, tenant)
    if as_json:
        output.print_json({"tenant": tenant, "key": made})
        return
    print_secrets({"key": made})


def revoke(
    context: typer.Context,
    tenant: Name,
    hint: Annotated[str, typer.Argument(metavar="KEY", help="How the key begins, as `headwater tenants show` says.")],
    as_json: AsJson = False,
) -> None:
    """Make a key invalid, within some seconds, for good."""
    from headwater.connectors.jobs import tenants

    with frame.of(context).jobs.quiet() as transaction:
        if not tenants.revoke_key(transaction, tenant, hint.rstrip("…")):
            raise NotFound(
                f"{tenant} has no valid key that begins with {hint}.",
                asked="A key was to be revoked.",
                kept="Nothing was changed.",
                advice=f"`headwater tenants show {tenant}` shows how its keys begin.",
            )
    if as_json:
        output.print_json({"tenant": tenant, "revoked": hint})
        return
    output.say(output.console(), f"The key {hint} of {tenant} is revoked.")


def secret(
    context: typer.Context,
    tenant: Name,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Make none: sign with the newest alone from now on.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make another webhook secret. Both sign meanwhile.

    When receivers have it, --drop-old ends the one before.
    """
    from headwater.connectors.jobs import tenants
    from headwater.rules.jobs import webhooks

    made = None if drop_old else webhooks.new_secret(token_bytes(SECRET_BYTES))
    with frame.of(context).jobs.quiet() as transaction:
        known = tenants.get(transaction, tenant)
        if known is None:
            raise _unknown(tenant)
        newest = known.webhook_secrets[:1]
        sign = newest if made is None else [made, *newest]
        tenants.set_tenant(transaction, tenant, {"webhook_secrets": sign})
    if as_json:
        output.print_json({"tenant": tenant, "webhook_secret": made})
    elif made is None:
        output.say(output.console(), f"Webhooks of {tenant} are signed with its newest secret alone.")
    else:
        print_secrets({"webhook secret": made})


SECRET_BYTES = 32


def known(transaction: Transaction, tenant: str) -> TenantUse:
    """Raises NotFound."""
    from headwater.connectors.jobs import overview

    found = overview.tenants(transaction, tenant)
    if not found:
        raise _unknown(tenant)
    return found[0]


def _unknown(tenant: str) -> NotFound:
    return NotFound(
        f"there is no tenant {tenant!r}.",
        kept="Nothing was changed.",
        advice=f"`headwater tenants` names those that there are, `headwater tenants add {tenant}` makes it.",
    )


def new_key(transaction: Transaction, tenant: str) -> str:
    """Raises NotFound."""
    from headwater.connectors.jobs import tenants
    from headwater.rules.jobs import keys

    known(transaction, tenant)
    made = keys.new_key(token_bytes(keys.RANDOM_BYTES))
    tenants.add_key(transaction, tenant, keys.key_hash(made), keys.key_hint(made))
    return made


def print_secrets(made: Mapping[str, str]) -> None:
    console = output.console()
    for name, value in made.items():
        console.print(Text(f"{name:>14}  ", style="dim").append(value, style="not dim bold"), soft_wrap=True)
    console.print("Keep it where only its owner can read it: it is not shown again.", style="dim")
