"""The routes of the endpoint: each takes a list, makes one transaction of it, and answers for each item.

Handlers are plain functions in a pool of threads: the database is what they wait for. An answer that gets lost is asked
for again; each verb then answers as it did (connectors/jobs says how).
"""

from __future__ import annotations

import hmac
import random
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Response

from headwater.connectors.jobs import leases, measured, results, workers
from headwater.connectors.jobs.database import JobsDatabase, Transaction
from headwater.connectors.jobs.rows import AttemptId, Holder
from headwater.producers.api import problems
from headwater.producers.api.endpoint import measures
from headwater.producers.api.endpoint.progress import Progress
from headwater.producers.api.guard import Guard
from headwater.producers.api.problems import Kind, Problem
from headwater.rules.errors import BadRecord, Fenced
from headwater.rules.jobs.capabilities import Capabilities
from headwater.rules.jobs.failures import FailurePolicy
from headwater.schemas.worker_api import (
    Attempt,
    Beat,
    BeatAnswer,
    BeatOutcome,
    BeatRequest,
    Beats,
    Claimed,
    ClaimOutcome,
    ClaimRequest,
    Claims,
    CompleteRequest,
    EndAnswer,
    EndOutcome,
    Ends,
    FailRequest,
    Registered,
    Registration,
    ReleaseRequest,
    Shape,
    Signed,
    Stage,
    StoppedRequest,
)

_BODY_BYTES = 16 * 1024 * 1024
"""Two hundred failures with the ends of their logs are a few megabytes."""

_BEATS_A_LEASE = 3
"""Two may get lost before the third is late."""


def endpoint_app(key: str, database: JobsDatabase, policy: FailurePolicy, progress: Progress) -> FastAPI:
    """``key``: what workers show. ``policy``: what a failure means."""
    app = FastAPI(
        title="headwater workers", openapi_url=None, dependencies=[Depends(_Keys(key))], default_response_class=Response
    )
    app.add_middleware(Guard, body_bytes=_BODY_BYTES)
    problems.install(app)
    lease_seconds = database.config.lease_seconds

    @app.post("/register")
    def register(request: Registration) -> Response:
        models = {offered.model: _checked(offered.capabilities) for offered in request.models}
        try:
            with database.transaction() as transaction:
                partition = workers.register(
                    transaction,
                    _holder(request),
                    pool=request.pool,
                    slots=request.slots,
                    host=request.host,
                    models=models,
                    policy=policy,
                )
        except Fenced as error:
            raise Problem(Kind.superseded, str(error)) from error
        return _json(
            Registered(partition=partition, lease_seconds=lease_seconds, beat_seconds=lease_seconds / _BEATS_A_LEASE)
        )

    @app.post("/claim")
    def claim(request: ClaimRequest) -> Response:
        with database.autocommit() as transaction:
            claimed = leases.claim(transaction, _holder(request), [_id(one) for one in request.grants], lease_seconds)
        measures.claimed(claimed, len(request.grants) - len(claimed))
        mine = {AttemptId(one.job, one.epoch): one for one in claimed}
        return _json(Claims(claims=tuple(_claimed(_id(one), mine.get(_id(one))) for one in request.grants)))

    @app.post("/beat")
    def beat(request: BeatRequest) -> Response:
        beats = [_beat(one) for one in request.beats]
        with database.quiet() as transaction:
            answer = leases.beat(transaction, _holder(request), beats, lease_seconds, draining=request.draining)
        progress.tell(beats, answer.beats)
        outcomes = {AttemptId(one.job, one.epoch): BeatOutcome(one.outcome) for one in answer.beats}
        told = [(one, outcomes.get(_id(one), BeatOutcome.lost)) for one in request.beats]
        measures.beaten(outcome for _, outcome in told)
        return _json(
            Beats(
                beats=tuple(BeatAnswer(job=one.job, epoch=one.epoch, outcome=outcome) for one, outcome in told),
                granted=tuple(Attempt(job=job, epoch=epoch) for job, epoch in answer.granted),
                unknown_worker=answer.unknown_worker,
            )
        )

    @app.post("/complete")
    def complete(request: CompleteRequest) -> Response:
        given = [results.Result(one.job, one.epoch, one.result, one.gpu_seconds) for one in request.results]
        return _ended(database, "complete", lambda transaction: results.complete(transaction, _holder(request), given))

    @app.post("/fail")
    def fail(request: FailRequest) -> Response:
        given = [results.Failure(**one.model_dump(exclude={"checkpoint"})) for one in request.failures]

        def failed(transaction: Transaction) -> results.Ends:
            leases.keep_checkpoints(transaction, _holder(request), _last_beats(request))
            return results.fail(transaction, _holder(request), given, policy, random.random)

        return _ended(database, "fail", failed)

    @app.post("/release")
    def release(request: ReleaseRequest) -> Response:
        return _ended(
            database,
            "release",
            lambda transaction: results.release(
                transaction, _holder(request), [_beat(one) for one in request.releases]
            ),
        )

    @app.post("/stopped")
    def stopped(request: StoppedRequest) -> Response:
        given = [results.Stopped(one.job, one.epoch, one.gpu_seconds) for one in request.stopped]
        return _ended(database, "stopped", lambda transaction: results.stopped(transaction, _holder(request), given))

    return app


class _Keys:
    """The workers' shared secret, compared in constant time."""

    def __init__(self, key: str) -> None:
        self._expected = f"Bearer {key}".encode()

    def __call__(self, authorization: Annotated[str, Header()] = "") -> None:
        if not hmac.compare_digest(authorization.encode(), self._expected):
            raise Problem(Kind.unauthorized, "Send the workers' key as a bearer token.")


def _holder(request: Signed) -> Holder:
    return Holder(request.worker, request.incarnation)


def _id(one: Attempt) -> AttemptId:
    return AttemptId(one.job, one.epoch)


def _checked(capabilities: dict[str, Any]) -> dict[str, Any]:
    """As this release knows them. What is none would break every request for the model."""
    try:
        return Capabilities.from_json(capabilities).to_json()
    except BadRecord as error:
        raise problems.refused(str(error), pointer="#/models") from error


def _beat(one: Beat) -> leases.Beat:
    return leases.Beat(**one.model_dump() | {"stage": one.stage.value})


def _last_beats(request: FailRequest) -> list[leases.Beat]:
    """Of failed attempts; a checkpoint that one left may not have been told before."""
    return [
        leases.Beat(
            job=one.job,
            epoch=one.epoch,
            step=0,
            steps=0,
            stage=Stage.finishing.value,
            checkpoint=None if one.checkpoint is None else dict(one.checkpoint),
        )
        for one in request.failures
    ]


def _claimed(attempt: AttemptId, mine: leases.Claimed | None) -> Claimed:
    if mine is None:
        return Claimed(job=attempt.job, epoch=attempt.epoch, outcome=ClaimOutcome.gone)
    return Claimed.model_validate(asdict(mine) | {"outcome": ClaimOutcome.claimed})


def _ended(database: JobsDatabase, verb: str, end: Callable[[Transaction], results.Ends]) -> Response:
    with database.transaction() as transaction:
        ends = end(transaction)
        attempts = measured.ended(transaction, ends)
    measures.ended(verb, ends.values(), attempts)
    return _json(
        Ends(ends=tuple(EndAnswer(job=job, epoch=epoch, outcome=EndOutcome(how)) for (job, epoch), how in ends.items()))
    )


def _json(answer: Shape) -> Response:
    """Written by pydantic at once: the framework would check each answer again."""
    return Response(answer.model_dump_json(), media_type="application/json")
