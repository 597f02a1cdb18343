from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.webhooks import (
    BODY_BYTES,
    LIFE_SECONDS,
    LONGEST_REST_SECONDS,
    Endpoint,
    Verdict,
    new_secret,
    next_attempt,
    retry_after,
    verdict,
    webhook_body,
    webhook_id,
    webhook_type,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE, HOUR = 60, 3_600


def test_each_final_state_has_a_type_and_no_other_state_has_one() -> None:
    assert {webhook_type(state) for state in JobState if state.final} == {
        "video.completed",
        "video.failed",
        "video.cancelled",
        "video.expired",
    }
    with pytest.raises(ValueError, match="no webhook"):
        webhook_type(JobState.running)


def test_an_id_follows_from_job_and_type_alone() -> None:
    first = webhook_id("video_a", "video.completed")
    assert first == webhook_id("video_a", "video.completed")
    assert first.startswith("wh_")
    assert len(first) == 35
    assert len({first, webhook_id("video_b", "video.completed"), webhook_id("video_a", "video.failed")}) == 3


def test_the_schedule_is_that_of_the_specification() -> None:
    """0, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h (Standard Webhooks 1.0.0, "Deliverability")."""
    expected = [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR]
    waits = [next_attempt(made, 0.0, Random(made)) for made in range(1, 10)]
    for wait, least in zip(waits, expected, strict=True):
        assert wait is not None
        assert least <= wait <= 1.2 * least
    assert next_attempt(10, 0.0, Random(0)) is None


@given(st.integers(1, 9), st.integers().map(Random))
def test_what_failed_together_comes_back_apart(made: int, random: Random) -> None:
    assert len({next_attempt(made, 0.0, random) for _ in range(20)}) > 1


def test_a_whole_schedule_fits_into_a_deliverys_life() -> None:
    longest = type("Longest", (Random,), {"uniform": lambda _self, _least, most: most})()
    assert sum(next_attempt(made, 0.0, longest) or 0.0 for made in range(1, 11)) < LIFE_SECONDS


@given(st.floats(0, 1e12), st.integers(1, 9), st.integers().map(Random))
def test_a_busy_endpoint_gets_the_wait_that_it_asked_for_up_to_a_day(asked: float, made: int, random: Random) -> None:
    wait = next_attempt(made, asked, random)
    assert wait is not None
    assert min(asked, 24 * HOUR) <= wait <= 1.2 * 24 * HOUR + 1


@pytest.mark.parametrize(
    ("status", "value", "seconds"),
    [
        (429, "120", 120.0),
        (503, " 7 ", 7.0),
        (503, "Mon, 30 Nov 2026 12:01:30 GMT", 90.0),
        (503, "Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        (500, "120", 0.0),
        (200, "120", 0.0),
        (429, None, 0.0),
        (429, "soon", 0.0),
        (429, "-5", 0.0),
        (429, "٣", 0.0),
        (429, "9" * 400, 999_999_999.0),
    ],
)
def test_retry_after_is_read_in_both_its_forms(status: int, value: str | None, seconds: float) -> None:
    assert retry_after(status, value, NOW) == seconds


@given(st.text())
def test_no_words_of_an_endpoint_upset_us(value: str) -> None:
    assert retry_after(503, value, NOW) >= 0.0


def test_only_2xx_is_delivered_and_410_ends_it() -> None:
    said = {status: verdict(status) for status in range(100, 600)}
    assert {status for status, what in said.items() if what is Verdict.delivered} == set(range(200, 300))
    assert {status for status, what in said.items() if what is Verdict.disabled} == {410}


def test_a_body_says_what_happened_when_and_to_which_video() -> None:
    at = datetime(2026, 11, 30, 13, 0, 0, 500_000, tzinfo=UTC) + timedelta()
    assert json.loads(webhook_body("video.completed", at, {"id": "video_a", "prompt": "ein Fluß"})) == {
        "type": "video.completed",
        "timestamp": "2026-11-30T13:00:00.500000Z",
        "data": {"id": "video_a", "prompt": "ein Fluß"},
    }


@given(st.integers(0, 60_000), st.integers(0, 60_000), st.sampled_from(["x", "ü", "\x00", "界"]))
def test_a_body_is_never_too_large_and_keeps_its_id(prompt: int, metadata: int, letter: str) -> None:
    data = {"id": "video_a", "status": "failed", "prompt": letter * prompt, "metadata": {"a": letter * metadata}}
    body = webhook_body("video.failed", NOW, data)
    assert len(body) < BODY_BYTES
    assert json.loads(body)["data"]["id"] == "video_a"


def test_secrets_are_written_as_the_specification_says() -> None:
    assert new_secret(b"\0" * 24) == "whsec_" + "A" * 32
    with pytest.raises(ValueError, match="24 to 64"):
        new_secret(b"short")


def test_a_stranger_gets_little_and_earns_more() -> None:
    endpoint = Endpoint()
    assert endpoint.room(16, 0.0) == 2
    for _ in range(30):
        endpoint = endpoint.succeeded()
    assert endpoint.room(16, 0.0) == 16
    assert endpoint.failed(0.0, Random(1)).room(16, 0.0) == 2


def test_five_failures_in_a_row_open_the_breaker_and_one_success_closes_it() -> None:
    endpoint, random = Endpoint(), Random(1)
    for _ in range(4):
        endpoint = endpoint.failed(0.0, random)
        assert endpoint.room(16, 0.0) > 0
    endpoint = endpoint.failed(0.0, random)
    assert endpoint.room(16, 7.9) == 0
    assert endpoint.room(16, 10.0) == 1, "one attempt shows whether it is back"
    assert endpoint.succeeded().room(16, 10.0) > 1


@given(st.integers(4, 500), st.integers().map(Random))
def test_an_endpoint_that_came_back_notices_it_soon(failures: int, random: Random) -> None:
    endpoint = Endpoint(failures=failures).failed(1_000.0, random)
    assert endpoint.room(16, 1_000.0) == 0
    assert endpoint.room(16, 1_000.0 + LONGEST_REST_SECONDS) == 1
