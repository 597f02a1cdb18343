"""The client in Python against the service that it is for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.connectors.api.client import Client
from headwater.connectors.api.config import ClientConfig
from headwater.connectors.api.events import Event, events
from headwater.rules.errors import BadSettings, NotFound, Refused, Unavailable

_FOX = {"prompt": "a red fox", "model": "testcard"}


@pytest.fixture(scope="module")
def client(served: Any) -> Iterator[Client]:
    served.tenant("client").close()
    with Client(ClientConfig(url=served.api.url, key=served.keys["client"])) as client:
        yield client


def test_a_job_from_its_submission_to_its_deletion(client: Client) -> None:
    job = client.submit(_FOX)["id"]
    assert client.get(job)["status"] == "queued"
    assert client.listed()["data"][0]["id"] == job
    assert client.cancel(job)["status"] == "cancelled"
    again = client.redrive(job)
    assert again["retry_of"] == job
    assert client.delete(job)["id"] == job
    with pytest.raises(NotFound):
        client.get(job)
    assert client.undelete(job)["id"] == job
    assert client.attempts(job) == []
    assert client.deliveries(job) == []
    assert [model["id"] for model in client.models()] == ["testcard"]


def test_one_key_makes_one_job(client: Client) -> None:
    assert client.submit(_FOX, idempotency_key="one")["id"] == client.submit(_FOX, idempotency_key="one")["id"]


def test_events_are_read_to_the_end_of_the_job(client: Client) -> None:
    job = client.submit(_FOX)["id"]
    stream = client.events(job)
    assert (next(stream).kind, client.cancel(job)["status"]) == ("snapshot", "cancelled")
    *_, last = stream
    assert last.final
    assert last.data["status"] == "cancelled"
    assert list(client.events(job, last_event_id=last.id)) == []


def test_a_problem_is_one_of_our_errors_with_the_field(client: Client, served: Any) -> None:
    with pytest.raises(Refused, match="#/model: No worker offers this model") as refusal:
        client.submit({"prompt": "a", "model": "none"})
    assert refusal.value.facts["fields"] == ["#/model"]
    with pytest.raises(Refused, match="The video is not there yet"):
        client.content_url(client.submit(_FOX)["id"])
    with (
        Client(ClientConfig(url=served.api.url, key="hw_" + 43 * "a")) as stranger,
        pytest.raises(Refused, match="No valid API key"),
    ):
        stranger.models()


def test_an_api_that_is_away_is_said_with_its_address() -> None:
    with (
        Client(ClientConfig(url="http://127.0.0.1:9", key="hw_" + 43 * "a")) as client,
        pytest.raises(Unavailable, match=r"http://127.0.0.1:9 does not answer"),
    ):
        client.models()


@pytest.mark.parametrize(("config", "key"), [({"key": "a"}, "client.url"), ({"url": "http://a"}, "client.key")])
def test_what_is_not_set_is_named(config: dict[str, str], key: str) -> None:
    with pytest.raises(BadSettings, match=f"{key} is not set"):
        Client(ClientConfig(**config))


def test_events_are_parsed_as_the_standard_says() -> None:
    text = ': hi\nretry: 5\n\nid: 1-0\nevent: status\ndata: {"a":\ndata: 1}\n\ndata: {"cut": "off"}\n'
    assert list(events(text.split("\n")[:-1])) == [Event("1-0", "status", {"a": 1})]
