from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from headwater.connectors.jobs.deliveries import Delivery
from headwater.connectors.web.client import Web
from headwater.connectors.web.config import WebConfig
from headwater.consumers.webhooks.attempt import attempt, signed
from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.video import JobView, video_object
from headwater.rules.jobs.webhooks import Verdict

WEB = Web(WebConfig(allow_http=True, allow_networks=("127.0.0.0/8",)))
NEW, OLD = "whsec_" + "bmV3" * 8, "whsec_" + "b2xk" * 8
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
JOB = JobView(
    job="video_a", tenant="a", pool="demo", model="testcard", state=JobState.completed, version=4, epoch=1,
    result_epoch=1, request={"prompt": "a river", "seconds": "4", "size": "720x1280"}, priority=0, cost_seconds=1.0,
    deadline=None, created_at=AT, queued_at=AT, started_at=AT, completed_at=AT, expires_at=None, deleted_at=None,
    progress=100, step=0, steps=0, reason="completed", error_code=None, error_message=None, checkpoint=None,
    result={}, cost=7, webhook_url=None, retry_of=None,
)  # fmt: skip


def delivery(url: str, **changes: Any) -> Delivery:
    made = Delivery("wh_1", "a h", "a", "video_a", "video.completed", url, 0, (NEW, OLD), False)
    return replace(made, **changes)


def test_the_signature_is_that_of_the_published_example() -> None:
    headers = signed(
        "msg_loFOjxBNrRLzqYUf",
        datetime.fromtimestamp(1731705121, UTC),
        b'{"event_type":"ping","data":{"success":true}}',
        ["whsec_plJ3nmyCDGBKInavdOK15jsl"],
    )
    assert headers == {
        "content-type": "application/json",
        "webhook-id": "msg_loFOjxBNrRLzqYUf",
        "webhook-timestamp": "1731705121",
        "webhook-signature": "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=",
    }


def test_a_receiver_proves_a_webhook_with_either_of_two_secrets_and_no_other(receiver: Any) -> None:
    outcome = attempt(WEB, delivery(f"{receiver.url}/hook"), JOB, Random(1))
    assert (outcome.verdict, outcome.status, outcome.error) == (Verdict.delivered, 204, None)
    [hook] = receiver.got
    for secret in (NEW, OLD):
        said = Webhook(secret).verify(hook.body, hook.headers)
        assert said == {"type": "video.completed", "timestamp": "2026-11-30T12:00:00Z", "data": video_object(JOB)}
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "c3RyYW5nZXI=").verify(hook.body, hook.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(hook.body.replace(b"river", b"flood"), hook.headers)


def test_letters_beyond_ascii_are_signed_as_they_are_sent(receiver: Any) -> None:
    job = replace(JOB, request={**JOB.request, "prompt": "ein Fluß, 川 \ud83c".encode("utf-8", "ignore").decode()})
    attempt(WEB, delivery(f"{receiver.url}/hook"), job, Random(1))
    assert Webhook(NEW).verify(receiver.got[0].body, receiver.got[0].headers)["data"]["prompt"] == "ein Fluß, 川 "


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 500, 502])
def test_all_but_2xx_failed_and_is_tried_again(receiver: Any, status: int) -> None:
    receiver.answers["/hook"] = [status]
    outcome = attempt(WEB, delivery(f"{receiver.url}/hook"), JOB, Random(1))
    assert (outcome.verdict, outcome.status) == (Verdict.failed, status)
    assert outcome.wait_seconds is not None
    assert 5 <= outcome.wait_seconds <= 6
    assert len(receiver.got) == 1


def test_what_an_endpoint_says_is_kept_for_people_whatever_bytes_it_is(receiver: Any) -> None:
    receiver.answers["/hook"], receiver.said = [500], b"broken \x00\xff" + b"x" * 10_000
    outcome = attempt(WEB, delivery(f"{receiver.url}/hook"), JOB, Random(1))
    assert str(outcome.error).startswith("it answered 500: broken \ufffdxxx")
    assert len(str(outcome.error)) <= 300


def test_410_disables(receiver: Any) -> None:
    receiver.answers["/hook"] = [410]
    outcome = attempt(WEB, delivery(f"{receiver.url}/hook"), JOB, Random(1))
    assert (outcome.verdict, outcome.wait_seconds, outcome.sent) == (Verdict.disabled, None, True)


def test_a_busy_receiver_is_given_the_time_that_it_asks_for(receiver: Any) -> None:
    receiver.answers["/hook"], receiver.headers["Retry-After"] = [429], "1000"
    outcome = attempt(WEB, delivery(f"{receiver.url}/hook"), JOB, Random(1))
    assert outcome.wait_seconds is not None
    assert 1000 <= outcome.wait_seconds <= 1200


def test_the_tenth_failure_is_the_last(receiver: Any) -> None:
    receiver.answers["/hook"] = [500]
    outcome = attempt(WEB, delivery(f"{receiver.url}/hook", attempts=9), JOB, Random(1))
    assert (outcome.verdict, outcome.wait_seconds) == (Verdict.failed, None)


@pytest.mark.parametrize(("changes", "why"), [({"secrets": ()}, "no secret"), ({"disabled": True}, "410 before")])
def test_nothing_is_sent_unsigned_or_where_nothing_is_wanted(receiver: Any, changes: Any, why: str) -> None:
    outcome = attempt(WEB, delivery(f"{receiver.url}/hook", **changes), JOB, Random(1))
    assert (outcome.verdict, outcome.sent) == (Verdict.disabled, False)
    assert why in str(outcome.error)
    assert not receiver.got


def test_an_address_inside_is_not_called_and_the_reason_is_kept(receiver: Any) -> None:
    url = receiver.url.replace("http://", "https://")
    outcome = attempt(Web(WebConfig()), delivery(url), JOB, Random(1))
    assert outcome.verdict is Verdict.failed
    assert "loopback" in str(outcome.error)
    assert not receiver.got


def test_a_fault_of_ours_costs_an_attempt_and_not_the_sender(receiver: Any) -> None:
    outcome = attempt(WEB, delivery(f"{receiver.url}/hook", secrets=("whsec_!",)), JOB, Random(1))
    assert outcome.verdict is Verdict.failed
    assert outcome.wait_seconds is not None
    assert not receiver.got


def test_a_huge_prompt_stays_out_of_the_body(receiver: Any) -> None:
    job = replace(JOB, request={**JOB.request, "prompt": "x" * 30_000})
    attempt(WEB, delivery(f"{receiver.url}/hook"), job, Random(1))
    assert len(receiver.got[0].body) < 20_000
    assert json.loads(receiver.got[0].body)["data"]["id"] == "video_a"
