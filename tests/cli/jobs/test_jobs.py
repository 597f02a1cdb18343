"""A tenant's jobs by the command line: a real service and database; the worker's part is played by statements."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from headwater.connectors.jobs import results
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.rows import AttemptId
from headwater.connectors.kafka import topics
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.config import WebConfig
from headwater.producers.api.config import ApiConfig
from headwater.producers.api.process import Api
from headwater.schemas.topics import JOBS_EVENTS, JOBS_GRANTS, JOBS_REQUESTED
from tests.any_job import POLICY, Place
from tests.producers.api.conftest import CAPABILITIES, MODEL, NoWorkers

pytestmark = pytest.mark.stack
FOX = ("jobs", "submit", "a red fox", "--model", MODEL)


@pytest.fixture
def place(catalog_dsn: str) -> Iterator[Place]:
    """The pool of the model, with a worker whose steps a test takes."""
    with JobsDatabase(JobsConfig(dsn=catalog_dsn)) as database:
        database.migrate()
        place = Place(database, pool="demo", tenant="shop")
        place.prepare()
        place.register(place.worker, **{MODEL: CAPABILITIES.to_json()})
        yield place


@pytest.fixture
def shop(on_stack: Any, place: Place, bucket: str, command: Any, environment: dict[str, str]) -> Iterator[ObjectStore]:
    """The service, and a tenant's key in the environment of the commands. Gives the store of results."""
    topics.apply(on_stack, (JOBS_REQUESTED, JOBS_EVENTS, JOBS_GRANTS))
    store = ObjectStore(S3Config.from_url(bucket))
    key = command("tenants", "key", place.tenant, "--json").json["key"]
    config = ApiConfig(port=0, internal_port=0)
    with Api(
        config, database=place.jobs, kafka=on_stack, objects=store, web=WebConfig(), endpoint=NoWorkers()
    ) as service:
        environment |= {"HEADWATER_API": service.url, "HEADWATER_CLIENT__KEY": key}
        yield store


def run(place: Place, job: str) -> AttemptId:
    """Granted and claimed by a worker that was heard just now, however long the commands before took."""
    place.query("UPDATE workers SET seen_at = now()")
    [attempt] = place.run(job)
    return attempt


def test_a_job_from_its_submission_to_its_file(shop, place, command, tmp_path):
    job = command(*FOX, "--seconds", "2", "--metadata", "order=4711", "--json").json["id"]
    assert command("jobs", "list", "--status", "queued", "--json").json[0]["metadata"] == {"order": "4711"}
    attempt = run(place, job)
    assert "in_progress" in command("jobs").out
    assert "under way" in command("jobs", "attempts", job).out
    shop.put(f"r/{job}/1/video.mp4", os.urandom(5_000))
    place.complete(attempt)

    watched = command("jobs", "watch", job)

    assert watched.code == 0
    assert "completed" in watched.out
    assert "completed" in command("jobs", "show", job).out
    fetched = command("jobs", "download", job, "--into", "fox.mp4", "--json").json
    assert fetched["bytes"] == (tmp_path / "fox.mp4").stat().st_size == 5_000
    assert (tmp_path / "fox.mp4").read_bytes() == b"".join(shop.chunks(f"r/{job}/1/video.mp4"))
    again = command("jobs", "download", job, "--into", "fox.mp4")
    assert again.code == 77
    assert "is there already" in again.err
    assert command("jobs", "webhooks", job).out.startswith("None")
    traced = command("trace", job, "--json").json
    assert [event["what"] for event in traced["events"]] == ["accepted", "granted", "claimed", "completed", "completed"]
    assert f"r/{job}/1/video.mp4" in command("trace", job).out


def test_a_job_that_fails_ends_the_watch_with_3_and_is_redriven_as_a_new_one(shop, place, command):  # noqa: ARG001
    job = command(*FOX, "--json").json["id"]
    attempt = run(place, job)
    failure = results.Failure(
        **attempt._asdict(), code="content_refused", message="the filter said no", log_tail="", gpu_seconds=1
    )
    with place.jobs.transaction() as transaction:
        results.fail(transaction, place.worker, [failure], POLICY, lambda: 0.5)

    watched = command("jobs", "watch", job)

    assert watched.code == 3
    assert "content_refused: the filter said no" in watched.out
    again = command("jobs", "redrive", job, "--json").json
    assert (again["retry_of"], again["prompt"], again["status"]) == (job, "a red fox", "queued")


def test_a_job_is_cancelled_deleted_and_brought_back(shop, command):  # noqa: ARG001
    job = command(*FOX, "--json").json["id"]

    assert command("jobs", "cancel", job, "--json").json["status"] == "cancelled"
    assert command("jobs", "delete", job).code == 0
    assert command("jobs", "show", job).code == 66
    assert command("jobs", "--json").json == []
    assert "cancelled" in command("jobs", "undelete", job).out
    assert [one["id"] for one in command("jobs", "--json").json] == [job]


def test_one_key_makes_one_job(shop, command):  # noqa: ARG001
    first, second = (command(*FOX, "--key", "order-4711", "--json").json["id"] for _ in range(2))
    assert first == second
    other = command("jobs", "submit", "another", "--model", MODEL, "--key", "order-4711")
    assert other.code == 77


def test_what_is_wrong_with_a_request_is_named(shop, command):  # noqa: ARG001
    assert MODEL in command("jobs", "models").out
    for arguments, code, says in (
        (["--seconds", "999"], 77, "#/seconds"),
        (["--parameter", "seed=many"], 77, "#/parameters/seed"),
        (["--deadline", "1s"], 77, "#/deadline"),
        (["--deadline", "soon"], 2, "no length of time"),
        (["--metadata", "order"], 78, "--metadata order has no value"),
        (["--webhook-url", "http://127.0.0.1/"], 77, "#/webhook_url"),
    ):
        refused = command(*FOX, *arguments)
        assert refused.code == code, refused.err
        assert says in refused.err
    assert command("jobs", "--json").json == []


@pytest.mark.usefixtures("environment")
def test_without_a_key_or_a_service_it_says_what_to_do(command):
    without = command("jobs")
    assert without.code == 78
    assert "HEADWATER_CLIENT__KEY" in without.err
    away = command("jobs", HEADWATER_CLIENT__KEY="hw_" + 43 * "x", HEADWATER_API="http://127.0.0.1:9")
    assert away.code == 69
    assert "headwater up" in away.err
