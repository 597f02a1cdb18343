"""The clients and the receiver that the benchmarks of jobs rely on: they count nothing twice and miss nothing."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

import pytest
from jobs.load import Answer, Client, at_rate, crowd, shown_by, submitted
from jobs.receiver import Receiver
from standardwebhooks import Webhook

SECRET, ANOTHER = ("whsec_" + b64encode(bytes([number]) * 32).decode() for number in (1, 2))


def post(url: str, body: bytes, secret: str, id: str = "wh_1") -> int:
    now = datetime.now(UTC)
    headers = {
        "webhook-id": id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(id, now, body.decode()),
    }
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


BODY = json.dumps({"type": "video.completed", "timestamp": "t", "data": {"id": "video_1", "status": "completed"}})


def test_the_receiver_records_what_it_answers_and_whether_it_was_signed() -> None:
    with Receiver({"amber": SECRET}, Random(1)) as receiver:
        assert post(receiver.url("amber"), BODY.encode(), SECRET) == 204
        assert post(receiver.url("amber"), BODY.encode(), ANOTHER) == 204
        assert post(receiver.url("birch"), BODY.encode(), SECRET) == 204
    assert [(one.job, one.type, one.signed) for one in receiver.received()] == [
        ("video_1", "video.completed", signed) for signed in (True, False, False)
    ]


def test_what_the_receiver_refuses_it_has_not_heard_and_the_next_time_it_hears_it() -> None:
    with Receiver({"amber": SECRET}, Random(1), refusals=1.0) as receiver:
        assert post(receiver.url("amber"), BODY.encode(), SECRET) == 500
        assert receiver.received() == []
        assert post(receiver.url("amber"), BODY.encode(), SECRET) == 204
    assert [one.id for one in receiver.received()] == ["wh_1"]


class Api(BaseHTTPRequestHandler):
    """The first two answers to a key are unclear."""

    asked: dict[str, int] = {}  # noqa: RUF012
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Idempotency-Key"]
        self.asked[key] = self.asked.get(key, 0) + 1
        if self.asked[key] == 1:
            self.close_connection = True
            return
        body = json.dumps({"id": f"video_{key}"}).encode()
        self.send_response(503 if self.asked[key] == 2 else 202)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Api.asked = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_order_is_posted_under_one_key_until_an_answer_is_clear(url: str) -> None:
    async def surely() -> list[Answer]:
        async with Client(url, "key") as client:
            return await client.submit_surely({}, "k", time.monotonic() + 20)

    answers = asyncio.run(surely())
    assert [answer.status for answer in answers] == [0, 503, 202]
    assert submitted("k", "amber", frozenset(), True, answers).jobs == ("video_k",)


def test_every_number_is_asked_once_at_a_rate_and_by_a_crowd() -> None:
    asked: list[int] = []

    async def one(number: int) -> Answer:
        asked.append(number)
        return Answer(202, {}, 0, 0)

    assert len(asyncio.run(at_rate(10_000, 50, one))) == 50
    assert len(asyncio.run(crowd(7, 50, one))) == 50
    assert sorted(asked) == sorted([*range(50), *range(50)])


def test_only_an_answer_about_a_job_shows_it() -> None:
    assert shown_by("video_1", Answer(503, {}, 0, 0)) is None
    seen = shown_by("video_1", Answer(200, {"status": "in_progress", "attempt": 2}, 0, 0))
    assert seen is not None
    assert (seen.status, seen.attempt) == ("in_progress", 2)
