"""Streams of a job's events, from its wait to its end, through cuts, outages and crowds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import connect

from headwater.connectors.api.client import Client
from headwater.connectors.api.config import ClientConfig
from headwater.connectors.api.events import Event, events
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.web.config import WebConfig
from headwater.producers.api.config import ApiConfig
from headwater.producers.api.process import Api
from headwater.producers.api.public import events as routes
from headwater.schemas.codec import encode
from headwater.schemas.job_records import EventState, JobEvent, JobEventKind
from headwater.schemas.topics import JOBS_EVENTS

_FOX = {"prompt": "a red fox", "model": "testcard"}


@pytest.fixture(scope="module", autouse=True)
def uma(served: Any, eventually: Any) -> Iterator[httpx.Client]:
    eventually(lambda: not served.api.health().reason, 30)  # the log is followed
    with served.tenant("uma") as client:
        yield client


@contextmanager
def _stream(client: httpx.Client, job: str, **headers: str) -> Iterator[tuple[httpx.Response, Iterator[Event]]]:
    with client.stream("GET", f"/v1/videos/{job}/events", headers=headers) as response:
        yield response, events(response.iter_lines())


def _submit(client: httpx.Client) -> str:
    return str(client.post("/v1/videos", json=_FOX).json()["id"])


def _progress(served: Any, job: str, version: int, step: int) -> None:
    """What the endpoint of workers says of a beat."""
    event = JobEvent(
        kind=JobEventKind.progress,
        job=job,
        version=version,
        epoch=1,
        state=EventState.running,
        pool="demo",
        tenant="uma",
        progress=step * 10,
        step=step,
        steps=10,
        reason="",
        at_us=time.time_ns() // 1_000,
    )
    producer = served.kafka.producer()
    producer.produce(served.kafka.physical(JOBS_EVENTS), key=event.key(), value=encode(event))
    producer.flush()


def test_a_stream_tells_of_a_job_from_its_wait_to_its_end(served: Any, uma: httpx.Client) -> None:
    job = _submit(uma)
    with _stream(uma, job) as (response, heard):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["cache-control"] == "no-cache"
        first = next(heard)
        assert (first.kind, first.data) == ("snapshot", uma.get(f"/v1/videos/{job}").json())
        attempt = served.run(job)
        while (event := next(heard)).data["status"] != "in_progress":
            assert event.kind == "status"
        _progress(served, job, event.data["version"], 3)
        progress = next(heard)
        assert (progress.kind, progress.data["progress"], progress.data["step"]) == ("progress", 30, 3)
        served.complete(attempt)
        last = next(heard)
        assert (last.data["status"], last.data["progress"], last.final) == ("completed", 100, True)
        assert list(heard) == []  # the stream ends with its job


def test_a_stream_goes_on_after_the_last_event_that_its_client_has(served: Any, uma: httpx.Client) -> None:
    job = _submit(uma)
    with _stream(uma, job) as (_, heard):
        first = next(heard)
        served.run(job)
        told = [next(heard)]
        while told[-1].data["status"] != "in_progress":
            told.append(next(heard))
        _progress(served, job, told[-1].data["version"], 1)
        told.append(next(heard))
    for count, last in enumerate(told, 1):
        with _stream(uma, job, **{"Last-Event-ID": last.id}) as (_, heard):
            assert [next(heard) for _ in told[count:]] == told[count:]
    with _stream(uma, job, **{"Last-Event-ID": "0-0"}) as (_, heard):  # nobody knows what came after that one
        assert next(heard).kind == "snapshot"
    assert first.id != told[0].id


def test_a_client_that_knows_the_end_hears_that_there_is_nothing_more(uma: httpx.Client) -> None:
    job = _submit(uma)
    uma.post(f"/v1/videos/{job}/cancel")
    with _stream(uma, job) as (_, heard):
        [end] = heard
    assert end.data["status"] == "cancelled"
    answer = uma.get(f"/v1/videos/{job}/events", headers={"Last-Event-ID": end.id})
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_stream_that_has_nothing_to_tell_pings(uma: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "PING_SECONDS", 0.05)
    with uma.stream("GET", f"/v1/videos/{_submit(uma)}/events") as response:
        lines = response.iter_lines()
        assert next(lines) == "retry: 2000"
        assert ": ping" in lines


def test_a_websocket_tells_the_same(served: Any, uma: httpx.Client) -> None:
    job = _submit(uma)
    address = f"{served.api.url.replace('http', 'ws')}/v1/videos/{job}/events"
    with connect(address, additional_headers={"Authorization": uma.headers["authorization"]}) as socket:
        first = json.loads(socket.recv())
        assert (first["event"], first["data"]["status"]) == ("snapshot", "queued")
        served.complete(served.run(job))
        told = [json.loads(message) for message in socket]
    assert [one["data"]["status"] for one in told][-1] == "completed"
    with (
        connect(
            address, additional_headers={"Authorization": uma.headers["authorization"], "Last-Event-ID": told[-1]["id"]}
        ) as again,
        pytest.raises(ConnectionClosedOK),
    ):
        again.recv()


def test_a_thousand_clients_that_come_and_go_leave_nothing(served: Any, uma: httpx.Client, eventually: Any) -> None:
    """Case 19."""
    job = _submit(uma)
    where = urlsplit(served.api.url)
    request = (
        f"GET /v1/videos/{job}/events HTTP/1.1\r\nHost: x\r\nAuthorization: {uma.headers['authorization']}\r\n\r\n"
    ).encode()

    async def open_one() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(request)
        await reader.readuntil(b"event: snapshot")
        return writer

    async def come_and_go() -> int:
        most = 0
        for _ in range(5):
            writers = await asyncio.gather(*(open_one() for _ in range(200)))
            most = max(most, served.streams())
            for writer in writers:
                writer.transport.abort()
        return most

    assert asyncio.run(come_and_go()) >= 200
    assert eventually(lambda: served.streams() == 0, 30)


def test_without_kafka_jobs_are_accepted_and_streams_go_on_from_the_catalog(served: Any) -> None:
    nobody = Kafka(KafkaConfig("127.0.0.1:9"))
    parts = {"database": served.database, "kafka": nobody, "objects": served.objects}
    config = ApiConfig(port=0, internal_port=0)
    with (
        Api(config, web=WebConfig(), endpoint=served.no_workers(), **parts) as api,
        Client(ClientConfig(url=api.url, key=served.keys["uma"])) as client,
    ):
        assert api.health().healthy
        assert api.health().state == "degraded"
        job = client.submit(_FOX)["id"]
        stream = client.events(job)
        assert next(stream).kind == "snapshot"
        attempt = served.run(job)
        while next(stream).data["status"] != "in_progress":
            pass
        served.step(attempt, 5, 10)
        assert next(stream).data["progress"] == 50
        served.complete(attempt)
        assert next(stream).data["status"] == "completed"


def test_a_process_that_stops_ends_its_streams_at_once(served: Any, uma: httpx.Client) -> None:
    parts = {"database": served.database, "kafka": served.kafka, "objects": served.objects}
    api = Api(ApiConfig(port=0, internal_port=0), web=WebConfig(), endpoint=served.no_workers(), **parts)
    with api, served.client(served.keys["uma"], api.url) as client, _stream(client, _submit(uma)) as (_, heard):
        assert next(heard).kind == "snapshot"
        api.__exit__()
        assert list(heard) == []
