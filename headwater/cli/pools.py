"""``headwater pools``: workers with like hardware, and what waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli import frame, limits, output
from headwater.cli.cast import quantities
from headwater.cli.default import meaning
from headwater.cli.frame import AsJson
from headwater.rules.errors import NotFound

if TYPE_CHECKING:
    from headwater.connectors.jobs.overview import PoolUse, WorkerUse

app = typer.Typer(cls=meaning("list"), help="Pools of workers, and what waits for them.")

_SILENT_SECONDS = 5.0
"""A scheduler that works says how its pools stand each second."""


@app.command("list")
def list_pools(context: typer.Context, as_json: AsJson = False) -> None:
    """Show each pool: slots, what runs, what waits.

    What `headwater pools` does by itself.
    """
    from headwater.connectors.jobs import overview

    with frame.of(context).jobs.quiet() as transaction:
        found = overview.pools(transaction)
    if as_json:
        output.print_json(found)
        return
    if not found:
        output.say(output.console(), "No pool: `headwater pools set NAME` makes one.")
        return
    columns = ("pool", "models", "workers", "slots", "queued", "running", "oldest waits", "fallback", "scheduler")
    right = ("workers", "slots", "queued", "running", "oldest waits")
    output.console().print(output.table(columns, map(_row, found), right=right))


def _row(pool: PoolUse) -> tuple[str | Text, ...]:
    return (
        pool.pool,
        ", ".join(pool.models) or "none yet",
        str(pool.workers),
        f"{pool.busy} of {pool.slots} busy",
        f"{pool.queued:,}",
        f"{pool.running:,}",
        "" if pool.oldest_seconds is None else output.duration(pool.oldest_seconds),
        pool.fallback or "",
        _scheduler(pool),
    )


def _scheduler(pool: PoolUse) -> Text:
    if pool.told_seconds is None:
        return Text("none yet", style="yellow")
    if pool.told_seconds > _SILENT_SECONDS:
        return Text(f"silent for {output.duration(pool.told_seconds)}", style="red")
    return Text("at work", style="green")


@app.command("set")
def set_pool(
    context: typer.Context,
    pool: Annotated[str, typer.Argument(help="Its name.")],
    price: Annotated[
        float | None,
        typer.Option(min=0, help="What a GPU second costs, in your currency. Of jobs that end from now on."),
    ] = None,
    fallback: Annotated[
        str | None, typer.Option(metavar="POOL|none", help="Where jobs go that fail here again and again.")
    ] = None,
    max_wait: Annotated[
        str | None, typer.Option(metavar="TIME|none", help="Jobs that would start later are refused: 10min, 2h.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a pool, or change one.

    Workers join it with `headwater worker --pool NAME`.
    """
    from headwater.connectors.jobs import overview
    from headwater.connectors.jobs.pools import set_pool as put
    from headwater.rules.jobs.names import require_name

    require_name("pool", pool)
    values: dict[str, float | str | None] = {}
    if price is not None:
        values["price"] = round(price * 1_000_000)
    if fallback is not None:
        values["fallback"] = None if fallback == limits.NONE else fallback
    if max_wait is not None:
        values["max_wait_seconds"] = None if max_wait == limits.NONE else quantities.span(max_wait)
    with frame.of(context).jobs.quiet() as transaction:
        made = not overview.pools(transaction, pool)
        if values.get("fallback") and not overview.pools(transaction, str(values["fallback"])):
            raise NotFound(
                f"there is no pool {fallback!r}.",
                asked=f"It was to be the fallback of {pool}.",
                kept="Nothing was changed.",
                advice=f"`headwater pools set {fallback}` makes it.",
            )
        put(transaction, pool, values)
        [found] = overview.pools(transaction, pool)
    if as_json:
        output.print_json({"made": made, **output.plain(found)})
        return
    most = (
        "no longest wait"
        if found.max_wait_seconds is None
        else f"waits up to {output.duration(found.max_wait_seconds)}"
    )
    said = f"{found.price / 1_000_000:g} a GPU second, fallback {found.fallback or 'none'}, {most}"
    output.say(output.console(), f"{pool} {'is made' if made else 'is set'}: {said}.")


@app.command()
def workers(
    context: typer.Context,
    pool: Annotated[str | None, typer.Argument(help="Only those of this pool.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the workers, and which jobs they have."""
    from headwater.connectors.jobs import overview

    with frame.of(context).jobs.quiet() as transaction:
        found = overview.workers(transaction, pool)
    if as_json:
        output.print_json(found)
        return
    if not found:
        output.say(output.console(), "No worker: `headwater worker --pool NAME --model testcard` starts one.")
        return
    columns: Any = ("worker", "pool", "state", "models", "slots", "heard", "jobs")
    output.console().print(output.table(columns, map(_worker, found), right=("slots",), whole=("worker", "jobs")))


def _worker(one: WorkerUse) -> tuple[str | Text, ...]:
    silent = one.heard_seconds > 2 * _SILENT_SECONDS
    heard = Text(f"{output.duration(one.heard_seconds)} ago", style="red" if silent else "")
    jobs = "\n".join(one.jobs[:_JOBS_SHOWN]) + (
        f"\nand {len(one.jobs) - _JOBS_SHOWN} more" if one.jobs[_JOBS_SHOWN:] else ""
    )
    return one.worker, one.pool, one.state, ", ".join(one.models), f"{one.busy} of {one.slots} busy", heard, jobs


_JOBS_SHOWN = 4
