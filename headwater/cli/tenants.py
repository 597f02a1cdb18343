"""``headwater tenants``: who may submit jobs, with which share and quotas, by which keys."""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_bytes
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli import frame, limits, output, tenant_keys
from headwater.cli.default import meaning
from headwater.cli.frame import AsJson
from headwater.cli.limits import Lifted
from headwater.cli.tenant_keys import Name
from headwater.rules.errors import BadSettings, Refused

if TYPE_CHECKING:
    from headwater.connectors.jobs.overview import TenantUse

_LIMITS = ("weight", "max_running", "max_queued", "requests_per_minute", "gpu_seconds_per_day", "retention_days")
app = typer.Typer(cls=meaning("list"), help="Who may have videos made: shares, quotas, keys.")

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
        found, keys = tenant_keys.known(transaction, tenant), tenants.keys(transaction, tenant)
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
    secret = webhooks.new_secret(token_bytes(tenant_keys.SECRET_BYTES))
    with frame.of(context).jobs.quiet() as transaction:
        if not tenants.ensure(transaction, tenant):
            raise Refused(
                f"there is a tenant {tenant} already.",
                asked="A tenant was to be added.",
                kept="It stays as it is.",
                advice=f"`headwater tenants key {tenant}` makes another key, `tenants set` changes its limits.",
            )
        tenants.set_tenant(transaction, tenant, {**given, "webhook_secrets": [secret]})
        key = tenant_keys.new_key(transaction, tenant)
    if as_json:
        output.print_json({"tenant": tenant, "key": key, "webhook_secret": secret})
        return
    tenant_keys.print_secrets({"key": key, "webhook secret": secret})


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
        tenant_keys.known(transaction, tenant)
        tenants.set_tenant(transaction, tenant, given)
        if disabled is not None:
            tenants.disable(transaction, tenant, disabled=disabled)
        found = tenant_keys.known(transaction, tenant)
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


app.command("key")(tenant_keys.key)
app.command("revoke")(tenant_keys.revoke)
app.command("secret")(tenant_keys.secret)
