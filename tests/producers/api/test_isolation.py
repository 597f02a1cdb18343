"""A tenant reaches nothing of another's, tried over every route that the service has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from fastapi.routing import APIWebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from headwater.producers.api.config import ApiConfig
from headwater.producers.api.public.app import public_app
from headwater.producers.api.public.service import Service

_FOX = {"prompt": "a red fox", "model": "testcard", "webhook_url": "https://example.org/hook"}
_SOCKETS = [
    route.path
    for route in public_app(Service(ApiConfig(), *[cast(Any, None)] * 6)).routes
    if isinstance(route, APIWebSocketRoute)
]


@pytest.fixture(scope="module")
def mine(served: Any) -> Iterator[httpx.Client]:
    with served.tenant("mine") as client:
        yield client


@pytest.fixture(scope="module")
def other(served: Any) -> Iterator[httpx.Client]:
    with served.tenant("other") as client:
        yield client


@pytest.fixture(scope="module")
def routes(mine: httpx.Client) -> list[tuple[str, str]]:
    """Method and path of every route below /v1, as the document of the service has them."""
    paths: dict[str, Any] = mine.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() if path.startswith("/v1/") for method in methods]


def _jobs(client: httpx.Client) -> dict[str, str]:
    """A job that waits, one that ended, and one that was deleted."""
    waiting, ended, deleted = (client.post("/v1/videos", json=_FOX).json()["id"] for _ in range(3))
    for job in (ended, deleted):
        assert client.post(f"/v1/videos/{job}/cancel").json()["status"] == "cancelled"
    assert client.delete(f"/v1/videos/{deleted}").status_code == 200
    return {"waiting": waiting, "ended": ended, "deleted": deleted}


def _rows(served: Any, tenant: str) -> list[Any]:
    with served.database.quiet() as transaction:
        return list(transaction.execute("SELECT * FROM jobs WHERE tenant = %s ORDER BY job", [tenant]))


def test_the_routes_that_are_tried_are_all(routes: list[tuple[str, str]]) -> None:
    assert len(routes) >= 14
    assert _SOCKETS == ["/v1/videos/{video_id}/events"]


def test_no_route_answers_without_a_key(served: Any, routes: list[tuple[str, str]]) -> None:
    for method, path in routes:
        assert httpx.request(method, served.api.url + path).status_code == 401, (method, path)
    for path in _SOCKETS:
        assert _refusal(served, path, {}) == 401


def test_another_tenants_job_is_unknown_on_every_route_and_stays_as_it_is(
    served: Any, mine: httpx.Client, other: httpx.Client, routes: list[tuple[str, str]]
) -> None:
    jobs = _jobs(mine)
    with served.database.quiet() as transaction:
        rows = transaction.execute(
            "SELECT delivery FROM deliveries WHERE tenant = 'mine' AND job = %s", [jobs["ended"]]
        )
        [(delivery,)] = rows
    before = _rows(served, "mine")
    tried = 0
    for method, path in routes:
        if "{video_id}" in path:
            for state, job in jobs.items():
                asked = path.format(video_id=job, delivery_id=delivery)
                answer = other.request(method, asked)
                assert answer.status_code == 404, (method, path, state)
                assert job not in answer.text
                tried += 1
    assert tried >= 30
    for path in _SOCKETS:
        for job in jobs.values():
            headers = {"Authorization": other.headers["authorization"]}
            assert _refusal(served, path.format(video_id=job), headers) == 404
    assert _rows(served, "mine") == before


def test_lists_and_cursors_show_ones_own(mine: httpx.Client, other: httpx.Client) -> None:
    theirs = [mine.post("/v1/videos", json=_FOX).json()["id"] for _ in range(3)]
    own = other.post("/v1/videos", json=_FOX).json()["id"]
    later = mine.post("/v1/videos", json=_FOX).json()["id"]
    listed = other.get("/v1/videos", params={"limit": 100}).json()["data"]
    assert own in [video["id"] for video in listed]
    assert not set(theirs) & {video["id"] for video in listed}
    after = other.get("/v1/videos", params={"after": later}).json()["data"]
    assert after == other.get("/v1/videos").json()["data"]


def test_idempotency_keys_are_a_tenants_own(mine: httpx.Client, other: httpx.Client) -> None:
    one, two = (
        client.post("/v1/videos", json=body, headers={"Idempotency-Key": '"shared"'})
        for client, body in ((mine, _FOX), (other, _FOX | {"prompt": "a grey wolf"}))
    )
    assert (one.status_code, two.status_code) == (202, 202)
    assert one.json()["id"] != two.json()["id"]


def test_a_disabled_tenant_and_a_revoked_key_open_nothing(served: Any, eventually: Any) -> None:
    with served.tenant("gone") as client:
        assert client.get("/v1/videos").status_code == 200
        with served.database.quiet() as transaction:
            transaction.execute("UPDATE tenants SET disabled_at = now() WHERE tenant = 'gone'")
        eventually(lambda: client.get("/v1/videos").status_code == 403)
        with served.database.quiet() as transaction:
            transaction.execute("UPDATE api_keys SET revoked_at = now() WHERE tenant = 'gone'")
        eventually(lambda: client.get("/v1/videos").status_code == 401)


def _refusal(served: Any, path: str, headers: dict[str, str]) -> int:
    """The status with which a WebSocket is refused."""
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(served.api.url.replace("http", "ws") + path, additional_headers=headers),
    ):
        pass
    assert refused.value.response.headers["content-type"] == "application/problem+json"
    return refused.value.response.status_code
