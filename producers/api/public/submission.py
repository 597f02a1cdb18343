"""``POST /v1/videos``, and the redrive of an old job: where jobs begin."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request, Response

from headwater.connectors.jobs import quotas, submit
from headwater.connectors.jobs.quotas import Allowance
from headwater.connectors.jobs.submit import Submission, SubmitOutcome, Submitted
from headwater.connectors.jobs.tenants import Tenant
from headwater.observe import job_metrics
from headwater.producers.api.problems import Kind, Problem
from headwater.producers.api.public import documents, limits
from headwater.producers.api.public.answers import as_json, video
from headwater.producers.api.public.idempotency import HEADER, fingerprint, key_of
from headwater.producers.api.public.intake import Intended, intended
from headwater.producers.api.public.keys import caller
from headwater.producers.api.public.service import Service
from headwater.producers.api.public.shapes import Video, VideoRequest
from headwater.producers.api.public.videos import owned
from headwater.rules.jobs import ids

_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_REFUSALS = {Kind.quota_exceeded: "quota", Kind.temporary_reduced_capacity: "queue"}
_NOTHING = Allowance()
_SOONEST_LOOK_SECONDS, _LATEST_LOOK_SECONDS = 1, 60

Key = Annotated[str | None, Header(alias=HEADER, description="The same key and body again: the same job.")]


@dataclass(frozen=True, slots=True)
class _Request:
    """What makes two requests the same one: the tenant's key, and what was asked under it."""

    tenant: Tenant
    key: str | None
    fingerprint: bytes
    trace: str | None


class Submissions:
    """The routes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        post = partial(app.post, status_code=202, responses=documents.accepted(Video), tags=["videos"])
        post("/v1/videos")(self.create_video)
        post("/v1/videos/{video_id}/redrive")(self.redrive_video)

    def create_video(self, request: Request, body: VideoRequest, idempotency_key: Key = None) -> Response:
        """Accepts a job: after this answer it reaches a final state that its owner can see."""
        said = body.model_dump(exclude_unset=True)
        return self._submit(_identified(request, idempotency_key, said), body, None)

    def redrive_video(self, request: Request, video_id: str, idempotency_key: Key = None) -> Response:
        """Asks for the same video again, as a new job: what ended stays as it ended."""
        old = owned(self._service, request, video_id)
        if not old.state.final:
            raise Problem(Kind.not_final, "Cancel it first, or wait for its end.")
        wanted = VideoRequest(
            model=old.model, priority=old.priority, webhook_url=old.webhook_url, allow_deferred=True, **old.request
        )
        return self._submit(_identified(request, idempotency_key, {}), wanted, old.job)

    def _submit(self, asked: _Request, wanted: VideoRequest, retry_of: str | None) -> Response:
        try:
            found = self._intended(asked.tenant, wanted)
            allowance = self._allowed(asked.tenant, found.cost_seconds)
        except Problem as problem:
            if (earlier := self._earlier(asked)) is not None:
                return self._answer(asked, earlier)
            _count_refusal(problem)
            raise
        with self._service.database.autocommit() as transaction:
            submitted = submit.submit(transaction, _submission(asked, wanted, found, retry_of))
        return self._answer(asked, submitted, found, allowance)

    def _intended(self, tenant: Tenant, wanted: VideoRequest) -> Intended:
        return intended(tenant, wanted, self._service.market.offers(), self._service.web, time.time_ns() // 1_000)

    def _allowed(self, tenant: Tenant, cost_seconds: float) -> Allowance:
        """Takes one of each quota. Raises Problem where one has no room."""
        if not tenant.limited:
            return Allowance()
        with self._service.database.quiet() as transaction:
            allowance = quotas.take(transaction, tenant, cost_seconds)
        if allowance.refused is not None:
            raise limits.exceeded(allowance.refused, allowance)
        return allowance

    def _earlier(self, asked: _Request) -> Submitted | None:
        """A repeated request is answered as the first one was, whatever has become of models and queues since."""
        if asked.key is None:
            return None
        with self._service.database.quiet() as transaction:
            return submit.earlier(transaction, asked.tenant.tenant, asked.key, asked.fingerprint)

    def _answer(
        self, asked: _Request, submitted: Submitted, found: Intended | None = None, allowance: Allowance = _NOTHING
    ) -> Response:
        """Raises Problem where the key stands in the way."""
        outcome = submitted.outcome
        if outcome is SubmitOutcome.in_flight:
            raise Problem(Kind.in_flight, "Its answer is a moment away: ask again.", headers={"Retry-After": "1"})
        if outcome is SubmitOutcome.conflict:
            detail = "Its first request asked for something else. Take a new key for a new video."
            raise Problem(Kind.key_reused, detail, errors=[{"header": HEADER, "detail": detail}])
        assert submitted.view is not None
        view = submitted.view
        replayed = outcome is SubmitOutcome.replayed
        job_metrics.API_ADMISSIONS.labels(
            "replayed" if replayed else "deferred" if found and found.deferred else "accepted"
        ).inc()
        body = video(view, self._service.market.offers(), asked.tenant.weight)
        headers = {
            "Location": self._service.address(f"/v1/videos/{view.job}"),
            "Retry-After": str(_look_again_seconds(found)),
            **limits.headers(allowance.rate),
        }
        if replayed:
            headers["Idempotency-Replayed"] = "true"
        return as_json(body, 202, headers)


def _identified(request: Request, header: str | None, said: Mapping[str, Any]) -> _Request:
    trace = request.headers.get("traceparent", "")
    return _Request(
        caller(request),
        key_of(header),
        fingerprint(request.url.path, said),
        trace if _TRACEPARENT.fullmatch(trace) else None,
    )


def _submission(asked: _Request, wanted: VideoRequest, found: Intended, retry_of: str | None) -> Submission:
    return Submission(
        job=ids.new_job(time.time_ns() // 1_000_000, os.urandom(ids.RANDOM_BYTES)),
        tenant=asked.tenant.tenant,
        pool=found.pool,
        model=wanted.model,
        request=found.request,
        cost_seconds=found.cost_seconds,
        priority=wanted.priority,
        deadline=found.deadline,
        webhook_url=wanted.webhook_url,
        retry_of=retry_of,
        trace=asked.trace,
        idempotency_key=asked.key,
        fingerprint=asked.fingerprint if asked.key is not None else None,
    )


def _count_refusal(problem: Problem) -> None:
    """Of the refusals those that say something of the service; a bad request says nothing."""
    deadline = any(error.get("pointer") == "#/deadline" for error in problem.errors)
    if (outcome := "deadline" if deadline else _REFUSALS.get(problem.kind)) is not None:
        job_metrics.API_ADMISSIONS.labels(outcome).inc()


def _look_again_seconds(found: Intended | None) -> int:
    """When a client that polls should: about when it should be done."""
    standing = found.standing if found is not None else None
    ends = standing.ends_in_seconds if standing is not None else None
    return min(_LATEST_LOOK_SECONDS, max(_SOONEST_LOOK_SECONDS, math.ceil(ends or 0)))
