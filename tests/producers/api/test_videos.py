"""The way of a job as its owner walks it, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headwater.connectors.jobs import results
from headwater.connectors.jobs.results import Failure

_FOX = {"prompt": "a red fox", "model": "testcard"}


@pytest.fixture(scope="module")
def ada(served: Any) -> Iterator[httpx.Client]:
    with served.tenant("ada") as client:
        yield client


def _submit(client: httpx.Client, **changes: Any) -> str:
    answer = client.post("/v1/videos", json=_FOX | changes)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def _type(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("/problems/")


def test_a_job_is_accepted_with_its_defaults_and_its_place(ada: httpx.Client) -> None:
    answer = ada.post("/v1/videos", json=_FOX | {"metadata": {"a": "b"}, "parameters": {"seed": 5}, "priority": -3})
    assert answer.status_code == 202, answer.text
    video = answer.json()
    assert answer.headers["location"] == f"/v1/videos/{video['id']}"
    assert 1 <= int(answer.headers["retry-after"]) <= 60
    assert video["status"] == "queued"
    assert (video["seconds"], video["size"]) == ("4", "720x1280")
    assert (video["metadata"], video["parameters"], video["priority"]) == ({"a": "b"}, {"seed": 5}, -3)
    assert (video["attempt"], video["version"], video["cost"], video["error"]) == (0, 1, None, None)
    assert ada.get(answer.headers["location"]).json() == video


def test_a_job_runs_completes_and_its_file_is_at_a_signed_address(served: Any, ada: httpx.Client) -> None:
    job = _submit(ada)
    assert _type(ada.get(f"/v1/videos/{job}/content")) == (409, "not-ready")
    attempt = served.run(job)
    served.step(attempt, 3, 10)
    video = ada.get(f"/v1/videos/{job}").json()
    assert (video["status"], video["progress"], video["attempt"]) == ("in_progress", 30, 1)
    served.complete(attempt, b"the bytes of a fox")
    video = ada.get(f"/v1/videos/{job}").json()
    assert (video["status"], video["progress"]) == ("completed", 100)
    assert video["expires_at"] - video["completed_at"] == 30 * 86_400
    assert video["cost"] is not None
    found = ada.get(f"/v1/videos/{job}/content")
    assert found.status_code == 302
    assert found.headers["cache-control"] == "no-store"
    assert httpx.get(found.headers["location"]).content == b"the bytes of a fox"  # without a key
    assert ada.get(f"/v1/videos/{job}/content", params={"variant": "thumbnail"}).status_code == 404
    assert _type(ada.post(f"/v1/videos/{job}/cancel")) == (409, "already-final")


def test_a_result_whose_time_is_over_is_gone(served: Any, ada: httpx.Client) -> None:
    job = _submit(ada)
    served.complete(served.run(job))
    with served.database.quiet() as transaction:
        transaction.execute("UPDATE jobs SET expires_at = now() WHERE job = %s", [job])
    assert _type(ada.get(f"/v1/videos/{job}/content")) == (410, "gone")


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_when_its_worker_stopped(
    served: Any, ada: httpx.Client
) -> None:
    waiting, running = _submit(ada), _submit(ada)
    attempt = served.run(running)
    assert ada.post(f"/v1/videos/{waiting}/cancel").json()["status"] == "cancelled"
    for _ in range(2):
        assert ada.post(f"/v1/videos/{running}/cancel").json()["status"] == "cancelling"
    with served.database.transaction() as transaction:
        results.stopped(transaction, served.worker, [results.Stopped(*attempt, 0.5)])
    for job in (waiting, running):
        assert ada.get(f"/v1/videos/{job}").json()["status"] == "cancelled"
        assert ada.post(f"/v1/videos/{job}/cancel").status_code == 200  # said again, it changes nothing
        assert _type(ada.get(f"/v1/videos/{job}/content")) == (410, "gone")


def test_attempts_say_who_had_the_job_and_how_that_ended(served: Any, ada: httpx.Client) -> None:
    job = _submit(ada)
    attempt = served.run(job)
    failure = Failure(
        job=job,
        epoch=attempt.epoch,
        code="invalid_input",
        message="no such fox",
        log_tail="the end of the log",
        gpu_seconds=0.25,
    )
    with served.database.transaction() as transaction:
        results.fail(transaction, served.worker, [failure], served.policy, lambda: 0.5)
    video = ada.get(f"/v1/videos/{job}").json()
    assert (video["status"], video["error"]) == ("failed", {"code": "invalid_input", "message": "no such fox"})
    [told] = ada.get(f"/v1/videos/{job}/attempts").json()["data"]
    assert (told["attempt"], told["outcome"], told["code"]) == (1, "failed", "invalid_input")
    assert (told["log_tail"], told["gpu_seconds"]) == ("the end of the log", 0.25)
    assert told["granted_at"] <= told["started_at"] <= told["ended_at"]
    assert told.keys().isdisjoint({"worker", "pool", "incarnation"})  # of the inside, nothing


def test_a_deleted_job_is_hidden_until_it_is_undeleted(ada: httpx.Client) -> None:
    job = _submit(ada)
    assert _type(ada.delete(f"/v1/videos/{job}")) == (409, "not-final")
    ada.post(f"/v1/videos/{job}/cancel")
    assert ada.delete(f"/v1/videos/{job}").status_code == 200
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/redrive"), ("GET", "/attempts")):
        assert ada.request(method, f"/v1/videos/{job}{path}").status_code == 404, path
    assert job not in [video["id"] for video in ada.get("/v1/videos").json()["data"]]
    for _ in range(2):
        assert ada.post(f"/v1/videos/{job}/undelete").json()["status"] == "cancelled"
    assert ada.get(f"/v1/videos/{job}").status_code == 200


def test_pages_hold_every_job_once_in_both_orders(served: Any) -> None:
    with served.tenant("paul") as paul:
        jobs = [_submit(paul) for _ in range(7)]
        for order, expected in (("desc", jobs[::-1]), ("asc", jobs)):
            listed: list[str] = []
            after = None
            while True:
                query = {"limit": 3, "order": order} | ({"after": after} if after else {})
                page = paul.get("/v1/videos", params=query).json()
                listed += [video["id"] for video in page["data"]]
                if not page["has_more"]:
                    break
                after = page["next"]
            assert listed == expected
            assert page["next"] is None


def test_lists_are_of_the_states_that_are_asked_for(served: Any) -> None:
    with served.tenant("lea") as lea:
        waiting, granted, cancelled = (_submit(lea) for _ in range(3))
        served.grant(granted)
        lea.post(f"/v1/videos/{cancelled}/cancel")

        def listed(*states: str) -> set[str]:
            return {video["id"] for video in lea.get("/v1/videos", params={"status": states}).json()["data"]}

        assert listed("queued") == {waiting, granted}
        assert listed("cancelled") == {cancelled}
        assert listed("queued", "cancelled") == {waiting, granted, cancelled}
        assert listed("failed") == set()


def test_a_webhook_is_listed_and_sent_again(served: Any, ada: httpx.Client) -> None:
    job = _submit(ada, webhook_url="https://example.org/hook")
    assert ada.get(f"/v1/videos/{job}/deliveries").json()["data"] == []
    ada.post(f"/v1/videos/{job}/cancel")
    [told] = ada.get(f"/v1/videos/{job}/deliveries").json()["data"]
    assert (told["type"], told["state"]) == ("video.cancelled", "pending")
    with served.database.quiet() as transaction:
        transaction.execute("UPDATE deliveries SET state = 'failed', attempts = 9 WHERE job = %s", [job])
    again = ada.post(f"/v1/videos/{job}/deliveries/{told['id']}/replay")
    assert again.status_code == 202
    [replayed] = again.json()["data"]
    assert (replayed["id"], replayed["state"], replayed["attempts"]) == (told["id"], "pending", 0)
    for unknown in ("wh_" + 32 * "0", "x", "%00"):
        assert ada.post(f"/v1/videos/{job}/deliveries/{unknown}/replay").status_code == 404


def test_webhooks_need_a_secret_that_signs_them(served: Any) -> None:
    with served.tenant("unsigned", webhook_secrets=[]) as client:
        answer = client.post("/v1/videos", json=_FOX | {"webhook_url": "https://example.org/hook"})
        assert answer.json()["errors"][0]["pointer"] == "#/webhook_url"


def test_models_say_what_they_take(ada: httpx.Client) -> None:
    [model] = ada.get("/v1/models").json()["data"]
    assert model == ada.get("/v1/models/testcard").json()
    assert (model["id"], model["sizes"], model["max_seconds"]) == ("testcard", ["720x1280", "1280x720"], 60)
    assert model["parameters"]["properties"] == {"seed": {"type": "integer"}}


def test_the_trace_of_a_request_goes_with_its_job(served: Any, ada: httpx.Client) -> None:
    parent = f"00-{32 * 'a'}-{16 * 'b'}-01"
    for header, kept in ((parent, parent), ("nonsense", None)):
        job = ada.post("/v1/videos", json=_FOX, headers={"traceparent": header}).json()["id"]
        with served.database.quiet() as transaction:
            assert transaction.execute("SELECT trace FROM jobs WHERE job = %s", [job]).fetchone() == (kept,)


def test_the_process_is_well_and_a_types_address_says_what_it_is(ada: httpx.Client) -> None:
    assert ada.get("/healthz").json() == {"status": "ok"}
    problem = ada.get("/v1/videos/none").json()
    assert ada.get(problem["type"]).json()["title"] == problem["title"]
