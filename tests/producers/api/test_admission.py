"""What is accepted, with which promise, and what is refused, with when to come again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from headwater.connectors.jobs import grants
from headwater.connectors.web.config import WebConfig
from headwater.producers.api.config import ApiConfig
from headwater.producers.api.process import Api
from headwater.rules.jobs.board import Board, JobClass, TenantBoard
from headwater.stack.postgres import maintenance

_FOX = {"prompt": "a red fox", "model": "testcard", "seconds": "4"}  # four GPU seconds


def _publish(served: Any, board: Board, max_wait_seconds: float | None = None) -> None:
    with served.database.quiet() as transaction:
        assert grants.publish_board(transaction, "demo", served.owner_epoch, board.to_json())
        transaction.execute("UPDATE pools SET max_wait_seconds = %s", [max_wait_seconds])


def _queue(jobs: int) -> Board:
    """So many jobs of one GPU second each before everybody else's, for one slot."""
    now_us = time.time_ns() // 1_000
    many = TenantBoard(1.0, None, 1, 1.0, (now_us - 10**9, now_us), (JobClass(0, jobs),))
    return Board(at_us=now_us, slots=1, free=0, pace=1.0, tenants={"adam": many})


@pytest.fixture(scope="module")
def adam(served: Any) -> Iterator[httpx.Client]:
    with served.tenant("adam") as client:
        yield client


@pytest.fixture(autouse=True)
def _no_board(served: Any) -> Iterator[None]:
    yield
    with served.database.quiet() as transaction:
        transaction.execute("UPDATE pools SET board = NULL, board_at = NULL, max_wait_seconds = NULL")


def _is_full(client: httpx.Client) -> bool:
    return client.post("/v1/videos", json=_FOX).status_code == 429


def test_a_rate_is_told_with_every_job_and_refused_with_when_to_come_again(served: Any) -> None:
    with served.tenant("rita", requests_per_minute=3) as client:
        accepted = [client.post("/v1/videos", json=_FOX) for _ in range(3)]
        assert [answer.status_code for answer in accepted] == [202, 202, 202]
        assert accepted[0].headers["ratelimit-policy"] == '"minute";q=3;w=60'
        assert [answer.headers["ratelimit"].partition(";t=")[0] for answer in accepted] == [
            '"minute";r=2',
            '"minute";r=1',
            '"minute";r=0',
        ]
        refused = client.post("/v1/videos", json=_FOX)
        assert refused.status_code == 429
        assert refused.json()["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
        assert refused.json()["violated-policies"] == ["requests-per-minute"]
        assert 1 <= int(refused.headers["retry-after"]) <= 20  # a third of a minute for one of three
        assert client.get("/v1/videos").status_code == 200  # reading is free


@pytest.mark.parametrize(
    ("limits", "policy"),
    [({"max_queued": 2}, "max-queued"), ({"gpu_seconds_per_day": 8.5}, "gpu-seconds-per-day")],
)
def test_a_quota_is_refused_by_its_name(served: Any, limits: dict[str, Any], policy: str) -> None:
    with served.tenant(policy, **limits) as client:
        answers = [client.post("/v1/videos", json=_FOX) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [202, 202, 429]
        assert answers[2].json()["violated-policies"] == [policy]
        assert int(answers[2].headers["retry-after"]) >= 1
        assert len(client.get("/v1/videos").json()["data"]) == 2


def test_a_repeated_request_is_replayed_though_the_quota_is_spent(served: Any) -> None:
    with served.tenant("quentin", max_queued=1) as client:
        one, two = (client.post("/v1/videos", json=_FOX, headers={"Idempotency-Key": "x"}) for _ in range(2))
        assert (one.status_code, two.status_code) == (202, 202)
        assert two.json()["id"] == one.json()["id"]


def test_a_queued_job_says_its_place_and_when_it_starts(served: Any, adam: httpx.Client, eventually: Any) -> None:
    _publish(served, _queue(20))
    job = adam.post("/v1/videos", json=_FOX).json()["id"]
    eventually(lambda: adam.get(f"/v1/videos/{job}").json()["queue_position"])
    _publish(served, _queue(20))  # as its scheduler does each second
    video = adam.get(f"/v1/videos/{job}").json()
    assert 20 <= video["queue_position"] <= 21
    assert 15 <= video["eta"] - time.time() <= 26


def test_what_would_start_too_late_is_refused_unless_it_may_be_deferred(
    served: Any, adam: httpx.Client, eventually: Any
) -> None:
    _publish(served, _queue(100), max_wait_seconds=30.0)
    eventually(lambda: _is_full(adam))
    refused = adam.post("/v1/videos", json=_FOX)
    assert refused.json()["type"] == "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
    assert 60 <= int(refused.headers["retry-after"]) <= 80  # 100 s of work before it, of which 30 may be
    deferred = adam.post("/v1/videos", json=_FOX | {"allow_deferred": True})
    assert deferred.status_code == 202
    assert deferred.json()["eta"] - time.time() > 60


def test_a_deadline_that_cannot_be_kept_is_refused(served: Any, adam: httpx.Client, eventually: Any) -> None:
    in_time = _FOX | {"deadline": int(time.time()) + 600}
    eventually(lambda: adam.post("/v1/videos", json=in_time).status_code == 202)
    soon = adam.post("/v1/videos", json=_FOX | {"deadline": int(time.time()) + 1})  # four seconds of work
    assert (soon.status_code, soon.json()["errors"][0]["pointer"]) == (422, "#/deadline")
    _publish(served, _queue(1_000))
    late = _FOX | {"deadline": int(time.time()) + 600}
    eventually(lambda: adam.post("/v1/videos", json=late | {"allow_deferred": True}).status_code == 422)


def test_without_the_catalog_nothing_is_half_done(served: Any, stack: Any, eventually: Any) -> None:
    parts = {"database": served.database, "kafka": served.kafka, "objects": served.objects}
    config = ApiConfig(port=0, internal_port=0, key_seconds=600)
    name = served.database.config.dsn.rpartition("/")[2].partition("?")[0]
    with (
        served.tenant("dora") as dora,
        Api(config, web=WebConfig(), endpoint=served.no_workers(), **parts) as api,
        served.client(served.keys["dora"], api.url) as client,
        psycopg.connect(maintenance(stack.postgres), autocommit=True) as admin,
    ):
        assert client.post("/v1/videos", json=_FOX).status_code == 202  # the key is known from here on
        admin.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false'.encode())
        try:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            for _ in range(2):
                refused = client.post("/v1/videos", json=_FOX, headers={"Idempotency-Key": "once"})
                assert refused.status_code == 503, refused.text
                assert int(refused.headers["retry-after"]) >= 1
                assert refused.headers["content-type"] == "application/problem+json"
            assert client.get("/healthz").status_code == 503
        finally:
            admin.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true'.encode())
        eventually(lambda: client.get("/healthz").status_code == 200)
        assert client.post("/v1/videos", json=_FOX, headers={"Idempotency-Key": "once"}).status_code == 202
        assert len(dora.get("/v1/videos").json()["data"]) == 2
