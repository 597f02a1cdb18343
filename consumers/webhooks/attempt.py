"""One attempt: the body is made, signed and sent, and the answer judged."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random

from standardwebhooks import Webhook

from headwater.connectors.jobs.deliveries import Delivery, Outcome
from headwater.connectors.web.client import Answer, Web
from headwater.observe import job_metrics, logs
from headwater.rules.errors import HeadwaterError
from headwater.rules.jobs.video import JobView, video_object
from headwater.rules.jobs.webhooks import Verdict, next_attempt, retry_after, verdict, webhook_body

log = logs.logger()

_ERROR_CHARACTERS = 300


def attempt(web: Web, delivery: Delivery, job: JobView, random: Random) -> Outcome:
    """Send it and say how that ended: whatever happens is an outcome."""
    if delivery.disabled:
        return _ended(delivery, "the endpoint answered 410 before; a replay tries it again")
    if not delivery.secrets:
        return _ended(delivery, "the tenant has no secret to sign webhooks with")
    now = datetime.now(UTC)
    try:
        body = webhook_body(delivery.type, job.completed_at or now, video_object(job))
        with job_metrics.WEBHOOK_SECONDS.time():
            answer = web.post(delivery.url, body, signed(delivery.delivery, now, body, delivery.secrets))
        return _judged(delivery, answer, now, random)
    except HeadwaterError as error:
        return _failed(delivery, None, str(error), 0.0, random)
    except Exception as error:  # a fault of ours must cost this attempt only
        log.exception("webhook.fault", delivery=delivery.delivery)
        return _failed(delivery, None, f"{type(error).__name__} at the sender", 0.0, random)


def signed(delivery: str, at: datetime, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """The headers of Standard Webhooks: a signature by each secret, so that receivers may change theirs in between."""
    text = body.decode()
    return {
        "content-type": "application/json",
        "webhook-id": delivery,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(Webhook(secret).sign(delivery, at, text) for secret in secrets),
    }


def _judged(delivery: Delivery, answer: Answer, now: datetime, random: Random) -> Outcome:
    match verdict(answer.status):
        case Verdict.delivered:
            return Outcome(delivery, Verdict.delivered, answer.status, None, None)
        case Verdict.disabled:
            return Outcome(delivery, Verdict.disabled, answer.status, "the endpoint is gone (410)", None)
        case _:
            said = answer.body.decode("utf-8", "replace")
            asked = retry_after(answer.status, answer.headers.get("retry-after"), now)
            return _failed(delivery, answer.status, f"it answered {answer.status}: {said}", asked, random)


def _failed(delivery: Delivery, status: int | None, error: str, asked_seconds: float, random: Random) -> Outcome:
    wait = next_attempt(delivery.attempts + 1, asked_seconds, random)
    kept = error[:_ERROR_CHARACTERS].replace("\x00", "")  # PostgreSQL's text takes all but this
    return Outcome(delivery, Verdict.failed, status, kept, wait)


def _ended(delivery: Delivery, why: str) -> Outcome:
    """Nothing was sent, and nothing will be."""
    return Outcome(delivery, Verdict.disabled, None, why, None)
