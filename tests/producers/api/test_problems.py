"""Every way in which a request can fail ends in one form of answer."""

from __future__ import annotations

import asyncio
import uuid
from typing import Annotated, Any

import httpx
import pytest
from fastapi import FastAPI, Header, Query
from pydantic import BaseModel

from headwater.producers.api.guard import Guard
from headwater.producers.api.problems import Kind, Problem, install
from headwater.rules.errors import Fenced, Unavailable


class _Body(BaseModel):
    name: str
    inner: dict[str, int] = {}


def _app() -> FastAPI:
    app = FastAPI(redirect_slashes=False)
    install(app)
    app.add_middleware(Guard, body_bytes=2_000)

    @app.post("/things/{thing}")
    def post(thing: str, body: _Body, limit: Annotated[int, Query()] = 1, x_word: Annotated[int, Header()] = 1) -> str:
        return f"{thing}{body.name}{limit}{x_word}"

    @app.delete("/things/{thing}")
    def delete(thing: str) -> None:
        raise Problem(Kind.gone, f"{thing} is gone.", more={"since": 7})

    @app.get("/away")
    def away() -> None:
        raise Unavailable("the catalog at secret-host does not answer")

    @app.get("/broken")
    def broken() -> None:
        raise ZeroDivisionError("internals")

    @app.get("/fenced")
    def fenced() -> None:
        raise Fenced("internals")

    return app


def _ask(method: str, path: str, **request: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
            return await client.request(method, path, **request)

    return asyncio.run(ask())


def _problem(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert {"type", "title", "detail", "instance"} <= body.keys()
    uuid.UUID(body["instance"].removeprefix("urn:uuid:"))
    return body


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"name": 5}, ["#/name"]),
        ({}, ["#/name"]),
        ({"name": "a", "inner": {"x/y~": "no"}}, ["#/inner/x~1y~0"]),
        ({"name": 1, "inner": 1}, ["#/name", "#/inner"]),
        ([], ["#"]),
        (None, ["#"]),
    ],
)
def test_a_field_that_is_not_acceptable_is_named_by_its_pointer(body: object, pointers: list[str]) -> None:
    problem = _problem(_ask("POST", "/things/a", json=body), 422)
    assert [error["pointer"] for error in problem["errors"]] == pointers


def test_parameters_and_headers_are_named() -> None:
    response = _ask("POST", "/things/a?limit=x", json={"name": "a"}, headers={"x-word": "y"})
    errors = _problem(response, 422)["errors"]
    assert {error.get("parameter") or error.get("header") for error in errors} == {"limit", "x-word"}


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"name": "a"', b"\xff\xfe{}", b'{"name": "\xff"}', b"[" * 1_900, b"nothing", b'{"name": "a\x00"}'],
)
def test_what_is_no_json_is_400(body: bytes) -> None:
    headers = {"content-type": "application/json"}
    _problem(_ask("POST", "/things/a", content=body, headers=headers), 400)


def test_a_body_of_another_type_is_415() -> None:
    _problem(_ask("POST", "/things/a", content=b"name=a", headers={"content-type": "text/plain"}), 415)


def test_a_body_above_the_bound_is_413_whether_or_not_it_is_announced() -> None:
    async def pieces() -> Any:
        for _ in range(30):
            yield b" " * 100

    json = {"content-type": "application/json"}
    _problem(_ask("POST", "/things/a", content=b" " * 2_001, headers=json), 413)
    _problem(_ask("POST", "/things/a", content=pieces(), headers=json), 413)
    _problem(_ask("DELETE", "/nowhere", content=b" " * 2_001), 413)


def test_a_path_that_is_not_there_and_a_method_that_it_does_not_take() -> None:
    _problem(_ask("GET", "/nowhere"), 404)
    _problem(_ask("POST", "/things/a/"), 404)
    response = _ask("PUT", "/things/a")
    _problem(response, 405)
    assert response.headers["allow"] == "DELETE, POST"


def test_what_a_handler_raises_is_told_as_it_says() -> None:
    problem = _problem(_ask("DELETE", "/things/a"), 410)
    assert problem["type"] == "/problems/gone"
    assert problem["since"] == 7


def test_a_server_that_is_away_is_503_with_a_time_and_without_its_address() -> None:
    response = _ask("GET", "/away")
    _problem(response, 503)
    assert int(response.headers["retry-after"]) > 0
    assert "secret-host" not in response.text


@pytest.mark.parametrize("path", ["/broken", "/fenced"])
def test_a_handler_that_breaks_is_500_without_its_insides(path: str) -> None:
    response = _ask("GET", path)
    _problem(response, 500)
    assert "internals" not in response.text
