"""The way of a job as its owner walks it, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest


@pytest.fixture(scope="module")
def ada(served: Any) -> Iterator[httpx.Client]:
    with served.tenant("ada") as client:
        yield client


def test_a_job_is_accepted_with_its_place(ada: httpx.Client) -> None:
    answer = ada.post("/v1/videos", json={"prompt": "a red fox", "model": "testcard", "metadata": {"a": "b"}})
    assert answer.status_code == 202, answer.text
    video = answer.json()
    assert answer.headers["location"] == f"/v1/videos/{video['id']}"
    assert int(answer.headers["retry-after"]) >= 1
    assert video["status"] == "queued"
    assert (video["seconds"], video["size"]) == ("4", "720x1280")
    assert ada.get(answer.headers["location"]).json() == video
