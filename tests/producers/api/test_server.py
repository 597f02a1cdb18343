from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from headwater.producers.api.server import Server
from headwater.rules.errors import BadSettings


def _app() -> FastAPI:
    app = FastAPI()
    app.get("/word")(lambda: "here")
    return app


def test_a_server_answers_inside_its_block_and_not_after_it() -> None:
    with Server("public", _app(), "127.0.0.1", 0, threads=2, drain_seconds=1) as server:
        assert httpx.get(f"{server.url}/word").json() == "here"
        assert server.alive()
    assert not server.alive()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/word")


def test_a_port_that_is_taken_is_said_with_its_number() -> None:
    with Server("public", _app(), "127.0.0.1", 0, threads=2, drain_seconds=1) as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(BadSettings, match=f"127.0.0.1:{port} is not to be had"):
            Server("internal", _app(), "127.0.0.1", port, threads=2, drain_seconds=1)
