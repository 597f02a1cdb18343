"""One key and one body are one job, however often and however fast they are posted (case 16)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from headwater.producers.api.problems import Problem
from headwater.producers.api.public.idempotency import fingerprint, key_of

_FOX = {"prompt": "a red fox", "model": "testcard"}


@pytest.fixture(scope="module")
def ida(served: Any) -> Iterator[httpx.Client]:
    with served.tenant("ida") as client:
        yield client


def _post(client: httpx.Client, key: str, body: dict[str, Any] = _FOX) -> httpx.Response:
    return client.post("/v1/videos", json=body, headers={"Idempotency-Key": key})


def test_the_same_key_and_body_are_answered_with_the_same_job(ida: httpx.Client) -> None:
    first = _post(ida, '"a"')
    again = ida.post(  # another order, spaces, a bare key: the same request
        "/v1/videos",
        content=b'{ "model" : "testcard",\n"prompt": "a red fox" }',
        headers={"Idempotency-Key": "a", "content-type": "application/json"},
    )
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"


def test_the_same_key_with_another_body_is_refused(ida: httpx.Client) -> None:
    _post(ida, "b")
    answer = _post(ida, "b", _FOX | {"prompt": "a grey wolf"})
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/key-reused"
    assert answer.json()["errors"][0]["header"] == "Idempotency-Key"


def test_fifty_at_once_make_one_job(served: Any, ida: httpx.Client) -> None:
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: _post(ida, "fifty"), range(50)))
    statuses = Counter(answer.status_code for answer in answers)
    assert statuses.keys() <= {202, 409}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 202}) == 1
    for answer in answers:
        if answer.status_code == 409:
            assert answer.json()["type"] == "/problems/in-flight"
            assert answer.headers["retry-after"] == "1"
    with served.database.quiet() as transaction:
        rows = transaction.execute("SELECT count(*) FROM idempotency WHERE tenant = 'ida' AND key = 'fifty'")
        assert rows.fetchone() == (1,)


def test_a_repeated_request_is_answered_as_the_first_whatever_became_of_its_model(
    served: Any, ida: httpx.Client, eventually: Any
) -> None:
    first = _post(ida, "c")
    with served.database.quiet() as transaction:
        transaction.execute("UPDATE models SET model = 'renamed'")
    try:
        eventually(lambda: ida.get("/v1/models/testcard").status_code == 404)
        assert _post(ida, "d").json()["errors"][0]["pointer"] == "#/model"
        assert _post(ida, "c").json()["id"] == first.json()["id"]
        assert _post(ida, "c", _FOX | {"seconds": "8"}).json()["type"] == "/problems/key-reused"
    finally:
        with served.database.quiet() as transaction:
            transaction.execute("UPDATE models SET model = 'testcard'")
        eventually(lambda: ida.get("/v1/models/testcard").status_code == 200)


def test_a_redrive_has_keys_of_its_own(ida: httpx.Client) -> None:
    job = ida.post("/v1/videos", json=_FOX).json()["id"]
    assert ida.post(f"/v1/videos/{job}/redrive").json()["type"] == "/problems/not-final"
    ida.post(f"/v1/videos/{job}/cancel")
    one, two = (ida.post(f"/v1/videos/{job}/redrive", headers={"Idempotency-Key": "again"}) for _ in range(2))
    assert one.status_code == 202
    assert one.json()["retry_of"] == job
    assert two.json()["id"] == one.json()["id"] != job


@pytest.mark.parametrize(
    ("header", "key"),
    [(None, None), ("a", "a"), ('"a"', "a"), (' "a b" ', "a b"), (r'"a\"b\\"', 'a"b\\'), ("k" * 255, "k" * 255)],
)
def test_a_key_may_be_quoted_or_not(header: str | None, key: str | None) -> None:
    assert key_of(header) == key


@pytest.mark.parametrize("header", ["", '"', '""', '"a"b"', "a b", "k" * 256, "\x7f", "é", r'"a\b"'])
def test_what_is_no_key_is_refused(header: str) -> None:
    with pytest.raises(Problem):
        key_of(header)


def test_a_fingerprint_is_of_the_path_and_the_content() -> None:
    assert fingerprint("/a", {"x": 1, "y": 2}) == fingerprint("/a", {"y": 2, "x": 1})
    assert len({fingerprint("/a", {"x": 1}), fingerprint("/b", {"x": 1}), fingerprint("/a", {"x": "1"})}) == 3
