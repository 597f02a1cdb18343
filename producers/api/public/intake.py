"""Whether a request becomes a job, and where: everything that can be said before the catalog is asked. Pure.

Each refusal is a Problem that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headwater.connectors.jobs.tenants import Tenant
from headwater.connectors.web.config import WebConfig
from headwater.connectors.web.url import check
from headwater.producers.api.problems import Kind, Problem, refused
from headwater.producers.api.public.offers import Offers, Pool
from headwater.producers.api.public.shapes import VideoRequest
from headwater.rules.errors import BadUrl
from headwater.rules.jobs.admission import Admitted, Asked, TooLate, TooLong, admit
from headwater.rules.jobs.board import Standing
from headwater.rules.jobs.capabilities import Capabilities, cost_seconds, refusals


@dataclass(frozen=True, slots=True)
class Intended:
    """What is to be written. ``standing`` is what the caller is told of the queue; None: nothing is known of it."""

    pool: str
    request: Mapping[str, Any]
    cost_seconds: float
    deadline: datetime | None
    standing: Standing | None
    deferred: bool


def intended(tenant: Tenant, wanted: VideoRequest, offers: Offers, web: WebConfig, now_us: int) -> Intended:
    """Raises Problem."""
    _check_urls(tenant, wanted, web)
    pools = offers.models.get(wanted.model)
    if not pools:
        raise refused("No worker offers this model: see GET /v1/models.", pointer="#/model")
    problem: Problem | None = None
    best: Intended | None = None
    for name, capabilities in pools.items():
        try:
            found = _in_pool(tenant, wanted, offers.pools.get(name), name, capabilities, now_us)
        except Problem as refusal:
            problem = refusal
        else:
            best = found if best is None or _start(found) < _start(best) else best
    if best is None:
        assert problem is not None
        raise problem
    return best


def _start(found: Intended) -> float:
    """A pool that says when it starts goes before one that does not."""
    starts = found.standing.starts_in_seconds if found.standing is not None else None
    return math.inf if starts is None else starts


def _in_pool(
    tenant: Tenant, wanted: VideoRequest, pool: Pool | None, name: str, capabilities: Capabilities, now_us: int
) -> Intended:
    size = wanted.size or capabilities.sizes[0]
    _check_capabilities(wanted, size, capabilities)
    cost = cost_seconds(capabilities, size, int(wanted.seconds))
    asked = Asked(
        tenant.tenant,
        wanted.priority,
        cost,
        None if wanted.deadline is None else wanted.deadline * 1_000_000,
        tenant.weight,
        wanted.allow_deferred,
    )
    board, age, most = (
        (None, None, None) if pool is None else (pool.board, pool.board_age_seconds, pool.max_wait_seconds)
    )
    verdict = admit(board, age, asked, most, now_us)
    if not isinstance(verdict, Admitted):
        raise _not_admitted(verdict)
    starts = verdict.standing.starts_in_seconds if verdict.standing is not None else None
    return Intended(
        name,
        {
            "prompt": wanted.prompt,
            "seconds": wanted.seconds,
            "size": size,
            "parameters": wanted.parameters,
            "input_url": wanted.input_url,
            "metadata": wanted.metadata,
        },
        cost,
        None if wanted.deadline is None else datetime.fromtimestamp(wanted.deadline, UTC),
        verdict.standing,
        deferred=starts is not None and most is not None and starts > most,
    )


def _check_urls(tenant: Tenant, wanted: VideoRequest, web: WebConfig) -> None:
    for field, url in (("input_url", wanted.input_url), ("webhook_url", wanted.webhook_url)):
        if url is not None:
            try:
                check(url, web, field=field)
            except BadUrl as bad:
                raise refused(f"{bad.happened} {bad.advice}", pointer=f"#/{field}") from bad
    if wanted.webhook_url is not None and not tenant.webhook_secrets:
        raise refused("This tenant has no secret to sign webhooks with.", pointer="#/webhook_url")


def _check_capabilities(wanted: VideoRequest, size: str, capabilities: Capabilities) -> None:
    found = refusals(
        capabilities,
        prompt=wanted.prompt,
        size=size,
        seconds=wanted.seconds,
        parameters=wanted.parameters,
        has_input=wanted.input_url is not None,
    )
    if found:
        errors = [{"pointer": "#/" + one.field.replace(".", "/"), "detail": one.message} for one in found]
        detail = f"The model {wanted.model} does not take this: {', '.join(one.field for one in found)}."
        raise Problem(Kind.invalid, detail, errors=errors)


def _not_admitted(verdict: TooLong | TooLate) -> Problem:
    if isinstance(verdict, TooLate):
        detail = (
            f"The result would be there in {verdict.ends_in_seconds:.0f} s at best; "
            f"the deadline is in {max(0.0, verdict.deadline_in_seconds):.0f} s."
        )
        return refused(detail, pointer="#/deadline")
    return Problem(
        Kind.temporary_reduced_capacity,
        f"It would start in {verdict.starts_in_seconds:.0f} s; this service promises {verdict.most_seconds:.0f} s. "
        "Try again later, or allow_deferred.",
        headers={"Retry-After": str(max(1, math.ceil(verdict.retry_after_seconds)))},
        more={"starts_in_seconds": round(verdict.starts_in_seconds)},
    )
