"""What a tenant may still submit, as HTTP says it: RateLimit header fields (IETF draft 10), and 429."""

from __future__ import annotations

import math

from headwater.connectors.jobs.quotas import Allowance, Quota, Rate
from headwater.producers.api.problems import Kind, Problem

_MINUTE = 60
_DETAILS = {
    Quota.requests_per_minute: "This tenant has submitted as much as it may within a minute.",
    Quota.max_queued: "This tenant has as many jobs that have not ended as it may. Wait for one to end, or cancel one.",
    Quota.gpu_seconds_per_day: "This tenant has no GPU time left for such a job today (UTC).",
}


def headers(rate: Rate | None) -> dict[str, str]:
    """Empty for a tenant whose rate has no limit."""
    if rate is None:
        return {}
    return {
        "RateLimit-Policy": f'"minute";q={rate.limit};w={_MINUTE}',
        "RateLimit": f'"minute";r={rate.left};t={math.ceil(rate.reset_seconds)}',
    }


def exceeded(quota: Quota, allowance: Allowance) -> Problem:
    """The answer to a job that this quota has no room for."""
    seconds = str(max(1, math.ceil(allowance.retry_after_seconds)))
    fields = headers(allowance.rate) | {"Retry-After": seconds}
    violated = {"violated-policies": [quota.value.replace("_", "-")]}
    return Problem(Kind.quota_exceeded, _DETAILS[quota], headers=fields, more=violated)
