"""``headwater tenants``: who may submit jobs, with which share and quotas, by which keys."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_bytes
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli import frame, limits, output
from headwater.cli.default import meaning
from headwater.cli.frame import AsJson
from headwater.cli.limits import Lifted
from headwater.rules.errors import BadSettings, NotFound, Refused

if TYPE_CHECKING:
    from headwater.connectors.jobs.database import Transaction
    from headwater.connectors.jobs.overview import TenantUse

app = typer.Typer(cls=meaning("list"), help="Who may have videos made: shares, quotas, keys.")

Name = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]
Weight = Annotated[
    float | None, typer.Option(min=0.01, max=1000, help="Its share of each pool, beside the others' (1 by default).")
]
MaxRunning = Annotated[
    Any, typer.Option(parser=limits.whole, metavar="N|none", help="Most jobs that workers have at once.")
]
MaxQueued = Annotated[Any, typer.Option(parser=limits.whole, metavar="N|none", help="Most jobs that have not ended.")]
Requests = Annotated[Any, typer.Option(parser=limits.whole, metavar="N|none", help="Most requests in a minute.")]
GpuSeconds = Annotated[
    Any, typer.Option(parser=limits.positive, metavar="N|none", help="Most GPU seconds in a day (UTC).")
]
Retention = Annotated[int | None, typer.Option(min=1, metavar="DAYS", help="How long results are kept (30).")]


@app.command("list")
def list_tenants(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the tenants: limits, and what they use today.

    What `headwater tenants` does by itself.
    """
    from headwater.connectors.jobs import overview

    with frame.of(context).jobs.quiet() as transaction:
        found = overview.tenants(transaction)
    if as_json:
        output.print_json(found)
        return
    if not found:
        output.say(output.console(), "No tenant: `headwater tenants add NAME` makes one, and its first key.")
        return
    columns = ("tenant", "weight", "queued", "running", "requests/min", "jobs today", "GPU s today", "keys", "")
    output.console().print(output.table(columns, map(_row, found), right=columns[1:-1]))


def _row(one: TenantUse) -> tuple[str | Text, ...]:
    return (
        one.tenant,
        f"{one.weight:g}",
        _of(one.queued + one.running, one.max_queued) if one.max_queued else f"{one.queued:,}",
        _of(one.running, one.max_running),
        "" if one.requests_per_minute is None else f"{one.requests_per_minute:,}",
        f"{one.jobs_today:,}",
        _of(round(one.gpu_seconds_today), one.gpu_seconds_per_day),
        str(one.keys),
        Text("disabled", style="yellow") if one.disabled_at else "",
    )


def _of(used: float, most: float | None) -> str:
    return f"{used:,}" if most is None else f"{used:,} of {most:,g}"


@app.command()
def show(context: typer.Context, tenant: Name, as_json: AsJson = False) -> None:
    """Show a tenant, and its keys by how they begin."""
    from headwater.connectors.jobs import tenants

    with frame.of(context).jobs.quiet() as transaction:
        found, keys = _known(transaction, tenant), tenants.keys(transaction, tenant)
    if as_json:
        known = [{"hint": key.hint, "created_at": key.created_at, "revoked_at": key.revoked_at} for key in keys]
        output.print_json({**output.plain(found), "keys": known})
        return
    console = output.console()
    said = [*((name, _limit(getattr(found, name))) for name in _LIMITS), ("webhook secrets", found.webhook_secrets)]
    for name, value in said:
        console.print(Text(f"{name.replace('_', ' '):>20}  ", style="dim").append(str(value), style="not dim"))
    rows = [
        (f"{key.hint}…", _day(key.created_at), f"revoked {_day(key.revoked_at)}" if key.revoked_at else "valid")
        for key in keys
    ]
    console.print()
    console.print(output.table(("key", "made", ""), rows) if rows else "No key: `headwater tenants key` makes one.")


def _limit(value: float | None) -> str:
    return "no limit" if value is None else f"{value:,g}"


def _day(moment: Any) -> str:
    return str(moment.astimezone().strftime("%Y-%m-%d %H:%M"))


@app.command()
def add(
    context: typer.Context,
    tenant: Name,
    weight: Weight = None,
    max_running: MaxRunning = None,
    max_queued: MaxQueued = None,
    requests_per_minute: Requests = None,
    gpu_seconds_per_day: GpuSeconds = None,
    retention_days: Retention = None,
    as_json: AsJson = False,
) -> None:
    """Let somebody submit jobs: a key, and a webhook secret.

    Both are shown now and never again: the key is kept as a hash.
    """
    from headwater.connectors.jobs import tenants
    from headwater.rules.jobs import webhooks
    from headwater.rules.jobs.names import require_name

    require_name("tenant", tenant)
    given = _given(weight, max_running, max_queued, requests_per_minute, gpu_seconds_per_day, retention_days)
    secret = webhooks.new_secret(token_bytes(_SECRET_BYTES))
    with frame.of(context).jobs.quiet() as transaction:
        if not tenants.ensure(transaction, tenant):
            raise Refused(
                f"there is a tenant {tenant} already.",
                asked="A tenant was to be added.",
                kept="It stays as it is.",
                advice=f"`headwater tenants key {tenant}` makes another key, `tenants set` changes its limits.",
            )
        tenants.set_tenant(transaction, tenant, {**given, "webhook_secrets": [secret]})
        key = _new_key(transaction, tenant)
    if as_json:
        output.print_json({"tenant": tenant, "key": key, "webhook_secret": secret})
        return
    _print_secrets({"key": key, "webhook secret": secret})


@app.command("set")
def set_limits(
    context: typer.Context,
    tenant: Name,
    weight: Weight = None,
    max_running: MaxRunning = None,
    max_queued: MaxQueued = None,
    requests_per_minute: Requests = None,
    gpu_seconds_per_day: GpuSeconds = None,
    retention_days: Retention = None,
    disabled: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Refuse its requests; what it submitted goes on.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a tenant's share and quotas.

    Running processes follow within some seconds.
    """
    from headwater.connectors.jobs import tenants

    given = _given(weight, max_running, max_queued, requests_per_minute, gpu_seconds_per_day, retention_days)
    if not given and disabled is None:
        raise BadSettings(
            "nothing is given that could be changed.",
            asked=f"Tenant {tenant} was to be changed.",
            kept="Nothing was changed.",
            advice="For example: --weight 2, --max-running 8, --requests-per-minute none, --disable.",
        )
    with frame.of(context).jobs.quiet() as transaction:
        _known(transaction, tenant)
        tenants.set_tenant(transaction, tenant, given)
        if disabled is not None:
            tenants.disable(transaction, tenant, disabled=disabled)
        found = _known(transaction, tenant)
    if as_json:
        output.print_json(found)
        return
    said = ", ".join(f"{name.replace('_', ' ')} {_limit(value)}" for name, value in given.items())
    state = "" if disabled is None else "disabled" if disabled else "enabled"
    output.say(output.console(), f"{tenant}: {', '.join(filter(None, (said, state)))}.")


def _given(
    weight: float | None,
    max_running: int | Lifted | None,
    max_queued: int | Lifted | None,
    requests_per_minute: int | Lifted | None,
    gpu_seconds_per_day: float | Lifted | None,
    retention_days: int | None,
) -> Mapping[str, float | None]:
    """Those limits that were typed."""
    every = {
        "weight": weight,
        "max_running": max_running,
        "max_queued": max_queued,
        "requests_per_minute": requests_per_minute,
        "gpu_seconds_per_day": gpu_seconds_per_day,
        "retention_days": retention_days,
    }
    return {name: limits.stored(value) for name, value in every.items() if value is not None}


@app.command()
def key(context: typer.Context, tenant: Name, as_json: AsJson = False) -> None:
    """Make another key. It is shown now, and never again.

    Those before stay valid until `headwater tenants revoke`.
    """
    with frame.of(context).jobs.quiet() as transaction:
        made = _new_key(transaction, tenant)
    if as_json:
        output.print_json({"tenant": tenant, "key": made})
        return
    _print_secrets({"key": made})


@app.command()
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


@app.command()
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

    made = None if drop_old else webhooks.new_secret(token_bytes(_SECRET_BYTES))
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
        _print_secrets({"webhook secret": made})


_SECRET_BYTES = 32
_LIMITS = ("weight", "max_running", "max_queued", "requests_per_minute", "gpu_seconds_per_day", "retention_days")


def _known(transaction: Transaction, tenant: str) -> TenantUse:
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


def _new_key(transaction: Transaction, tenant: str) -> str:
    """Raises NotFound."""
    from headwater.connectors.jobs import tenants
    from headwater.rules.jobs import keys

    _known(transaction, tenant)
    made = keys.new_key(token_bytes(keys.RANDOM_BYTES))
    tenants.add_key(transaction, tenant, keys.key_hash(made), keys.key_hint(made))
    return made


def _print_secrets(made: Mapping[str, str]) -> None:
    console = output.console()
    for name, value in made.items():
        console.print(Text(f"{name:>14}  ", style="dim").append(value, style="not dim bold"), soft_wrap=True)
    console.print("Keep it where only its owner can read it: it is not shown again.", style="dim")
