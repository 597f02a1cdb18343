"""Bad input of every kind: a 4xx problem that names the field, never a 500, and nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

_FOX: dict[str, Any] = {"prompt": "a red fox", "model": "testcard"}


@pytest.fixture(scope="module")
def eve(served: Any) -> Iterator[httpx.Client]:
    with served.tenant("eve") as client:
        yield client


@pytest.fixture(autouse=True)
def _nothing_is_stored(served: Any) -> Iterator[None]:
    yield
    with served.database.quiet() as transaction:
        counts = transaction.execute(
            "SELECT (SELECT count(*) FROM jobs WHERE tenant = 'eve'), "
            "(SELECT count(*) FROM idempotency WHERE tenant = 'eve'), "
            "(SELECT count(*) FROM outbox WHERE tenant = 'eve')"
        ).fetchone()
    assert counts == (0, 0, 0)


def _problem(answer: httpx.Response, *statuses: int) -> dict[str, Any]:
    assert answer.status_code in statuses, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    return problem


def _deep(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"prompt": ""}, "#/prompt"),
        ({"prompt": None}, "#/prompt"),
        ({"prompt": 5}, "#/prompt"),
        ({"prompt": "x" * 30_000}, "#/prompt"),
        ({"prompt": "a\0b"}, "#/prompt"),
        ({"prompt": "\ud800"}, "#/prompt"),
        ({"model": "no such model"}, "#/model"),
        ({"model": "\0"}, "#/model"),
        ({"model": ["testcard"]}, "#/model"),
        ({"seconds": 4}, "#/seconds"),
        ({"seconds": "0"}, "#/seconds"),
        ({"seconds": "-1"}, "#/seconds"),
        ({"seconds": "1e9"}, "#/seconds"),
        ({"seconds": "99999"}, "#/seconds"),
        ({"seconds": "4\n"}, "#/seconds"),
        ({"seconds": "\u0664"}, "#/seconds"),
        ({"size": "1x1"}, "#/size"),
        ({"size": "640X480"}, "#/size"),
        ({"size": "720x1280 "}, "#/size"),
        ({"parameters": {"seed": "one"}}, "#/parameters/seed"),
        ({"parameters": {"unknown": 1}}, "#/parameters"),
        ({"parameters": {"seed": 2**70}}, "#/parameters"),
        ({"parameters": {"a": {"b": "\0"}}}, "#/parameters"),
        ({"parameters": {"a\0": 1}}, "#/parameters"),
        ({"parameters": [1]}, "#/parameters"),
        ({"parameters": _deep(200)}, "#/parameters"),
        ({"input_url": "file:///etc/passwd"}, "#/input_url"),
        ({"input_url": "https://example.org/a.png"}, "#/input_url"),  # this model takes none
        ({"webhook_url": "http://127.0.0.1/"}, "#/webhook_url"),
        ({"webhook_url": "https://169.254.169.254/latest"}, "#/webhook_url"),
        ({"webhook_url": "https://user:word@example.org"}, "#/webhook_url"),
        ({"webhook_url": "nothing"}, "#/webhook_url"),
        ({"webhook_url": "https://" + "a" * 3_000}, "#/webhook_url"),
        ({"priority": 11}, "#/priority"),
        ({"priority": 1.5}, "#/priority"),
        ({"priority": True}, "#/priority"),
        ({"priority": 10**30}, "#/priority"),
        ({"deadline": 10**18}, "#/deadline"),
        ({"deadline": -1}, "#/deadline"),
        ({"deadline": 1}, "#/deadline"),
        ({"deadline": "2027-01-01"}, "#/deadline"),
        ({"metadata": {"a": 1}}, "#/metadata/a"),
        ({"metadata": {"a": "\0"}}, "#/metadata"),
        ({"metadata": {str(n): "" for n in range(17)}}, "#/metadata"),
        ({"metadata": {"k" * 65: ""}}, "#/metadata/" + "k" * 65),
        ({"metadata": {"k": "v" * 513}}, "#/metadata/k"),
        ({"allow_deferred": "yes"}, "#/allow_deferred"),
        ({"unknown": 1}, "#/unknown"),
        ({"un/kn~own": 1}, "#/un~1kn~0own"),
        ({"\ud800": 1}, "#"),
    ],
)
def test_a_field_that_is_not_acceptable_is_named(eve: httpx.Client, changes: dict[str, Any], pointer: str) -> None:
    body = json.dumps(_FOX | changes)
    for headers in ({}, {"idempotency-key": "again"}):
        answer = eve.post("/v1/videos", content=body, headers={"content-type": "application/json"} | headers)
        problem = _problem(answer, 422)
        assert pointer in [error["pointer"].removesuffix("/[key]") for error in problem["errors"]]


@pytest.mark.parametrize("missing", ["prompt", "model"])
def test_a_field_that_is_missing_is_named(eve: httpx.Client, missing: str) -> None:
    body = {name: value for name, value in _FOX.items() if name != missing}
    assert _problem(eve.post("/v1/videos", json=body), 422)["errors"][0]["pointer"] == f"#/{missing}"


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        (b"", {422}),
        (b"null", {422}),
        (b"[]", {422}),
        (b'"text"', {422}),
        (b"{", {400}),
        (b"\xff", {400}),
        (b'{"prompt": "\xff"}', {400}),
        (b'{"prompt": "a\x00b"}', {400}),
        (b'{"prompt": NaN, "model": Infinity}', {422}),
        (b"[" * 100_000, {400}),
        (b'{"a":' * 50_000, {400}),
        (b'{"priority": ' + b"9" * 10_000 + b"}", {400}),
        (b" " * 300_000, {413}),
    ],
)
def test_a_body_that_is_no_request_is_a_problem(eve: httpx.Client, body: bytes, statuses: set[int]) -> None:
    _problem(eve.post("/v1/videos", content=body, headers={"content-type": "application/json"}), *statuses)


def test_another_type_of_body_is_415(eve: httpx.Client) -> None:
    _problem(eve.post("/v1/videos", data=_FOX), 415)
    _problem(eve.post("/v1/videos", content=b"{}", headers={"content-type": "text/plain"}), 415)


@pytest.mark.parametrize("key", ["", '""', '"', "a b", "é", "k" * 256, '"' + "k" * 256 + '"', '"a\\x"'])
def test_an_idempotency_key_that_is_none_is_named(eve: httpx.Client, key: str) -> None:
    answer = eve.post("/v1/videos", json=_FOX, headers={"Idempotency-Key": key.encode("latin-1")})  # type: ignore[dict-item]
    assert _problem(answer, 400)["errors"][0]["header"] == "Idempotency-Key"


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("after=garbage", "after"),
        ("after=%00", "after"),
        ("after=" + "a" * 100_0, "after"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("limit=" + "9" * 5_000, "limit"),
        ("order=up", "order"),
        ("status=granted", "status"),
        ("status=%ff", "status"),
    ],
)
def test_a_list_that_cannot_be_is_refused_by_its_parameter(eve: httpx.Client, query: str, parameter: str) -> None:
    assert _problem(eve.get(f"/v1/videos?{query}"), 422)["errors"][0]["parameter"] == parameter


@pytest.mark.parametrize(
    "video", ["x", "%00", "video_", "video_" + 32 * "g", "%ff", "..%2fmodels", "video_" + 32 * "0"]
)
def test_what_is_no_job_is_404(eve: httpx.Client, video: str) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/events"), ("GET", "/content")):
        _problem(eve.request(method, f"/v1/videos/{video}{path}"), 404)


def test_a_model_that_is_not_there_is_404(eve: httpx.Client) -> None:
    for model in ("none", "%00", "%ff", "a/b"):
        _problem(eve.get(f"/v1/models/{model}"), 404)


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/videos/", "/v2/videos", "//", "/docs", "/problems/none"])
def test_a_path_that_is_not_there_is_404(eve: httpx.Client, path: str) -> None:
    _problem(eve.get(path), 404)


def test_a_method_that_a_path_does_not_take_says_which_it_does(eve: httpx.Client) -> None:
    answer = eve.put("/v1/videos", json=_FOX)
    _problem(answer, 405)
    assert answer.headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer x", "Basic aaaa", "Bearer hw_" + 43 * "a", "Bearer \xff", "hw_"]
)
def test_without_a_valid_key_there_is_nothing(served: Any, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    for method, path in (("POST", "/v1/videos"), ("GET", "/v1/models"), ("GET", "/v1/nothing")):
        answer = httpx.request(method, served.api.url + path, headers=headers)  # type: ignore[arg-type]
        _problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("event", ["x", "1", "1-", "-1-1", "9" * 30 + "-1"])
def test_an_event_id_that_is_none_is_named(eve: httpx.Client, event: str) -> None:
    answer = eve.get("/v1/videos/video_" + 32 * "0" + "/events", headers={"Last-Event-ID": event})
    assert _problem(answer, 422)["errors"][0]["header"] == "Last-Event-ID"
