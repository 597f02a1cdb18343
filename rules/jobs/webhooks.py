"""What a webhook is, when it is tried again, and how much of our attention an endpoint gets.

After Standard Webhooks 1.0.0 (https://www.standardwebhooks.com): ids, the schedule of attempts, what answers mean.
Times are seconds; clocks and chance are arguments.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from random import Random

from headwater.rules.jobs.states import JobState

SCHEDULE_SECONDS = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""From the failure before to each attempt: the schedule that Standard Webhooks recommends. Three days in all."""
JITTER_SHARE = 0.2
"""Each wait is longer by up to this, so that what failed together does not come back together."""
LIFE_SECONDS = 4 * 86_400.0
"""After this a delivery has failed, however few of its attempts were made because its endpoint rested: longer than the
schedule with all its jitter (3.8 days)."""
BODY_BYTES = 20_000
"""Bodies stay below this, as the specification asks."""


def webhook_type(state: JobState) -> str:
    """The type of the event that tells of this final state."""
    if not state.final:
        raise ValueError(f"no webhook tells that a job is {state}")
    return f"video.{state}"


def webhook_id(job: str, kind: str) -> str:
    """The same whoever writes it and however often it is sent: receivers drop what they have seen. SHA-256, because
    the database makes it too."""
    return f"wh_{hashlib.sha256(f'{job}.{kind}'.encode()).hexdigest()[:32]}"


def new_secret(random_bytes: bytes) -> str:
    """The secret that signs a tenant's webhooks, as the specification writes it. 24 to 64 ``random_bytes``."""
    if not 24 <= len(random_bytes) <= 64:
        raise ValueError(f"a webhook secret has 24 to 64 bytes, not {len(random_bytes)}")
    return f"whsec_{base64.b64encode(random_bytes).decode()}"


_DISPENSABLE = ("metadata", "parameters", "prompt", "error")
"""What may be long in a video: left out of a body that would be too large, in this order. GET shows it."""


def webhook_body(kind: str, at: datetime, data: Mapping[str, object]) -> bytes:
    """The JSON that is signed and sent: what happened, when, and the video as it is then, below BODY_BYTES."""
    kept = dict(data)
    for name in ("", *_DISPENSABLE):
        kept.pop(name, None)
        said = {"type": kind, "timestamp": at.astimezone(UTC).isoformat().replace("+00:00", "Z"), "data": kept}
        body = json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()
        if len(body) < BODY_BYTES:
            return body
    raise ValueError(f"the event {kind} has {len(body)} bytes even without {', '.join(_DISPENSABLE)}")


class Verdict(StrEnum):
    """What an answer says of the delivery."""

    delivered = "delivered"
    disabled = "disabled"
    """The endpoint wants nothing any more."""
    failed = "failed"


def verdict(status: int) -> Verdict:
    """2xx took it, 410 ends it for good; all else failed, redirects too: nobody checked where they lead."""
    if 200 <= status < 300:
        return Verdict.delivered
    return Verdict.disabled if status == 410 else Verdict.failed


def retry_after(status: int, value: str | None, now: datetime) -> float:
    """Seconds that a busy endpoint (429, 503) asked us to wait: its Retry-After, in seconds or as a date. 0: it did
    not, or in words that nobody understands."""
    if status not in (429, 503) or value is None:
        return 0.0
    if value.strip().isascii() and value.strip().isdigit():
        return float(value.strip()[:9])
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())


def next_attempt(made: int, asked_seconds: float, random: Random) -> float | None:
    """Seconds from the failure of attempt number ``made`` (from 1) to the next. None: that was the last.

    An endpoint that asked for a longer wait gets it, up to the longest of the schedule.
    """
    if made >= len(SCHEDULE_SECONDS):
        return None
    wait = max(SCHEDULE_SECONDS[made], min(asked_seconds, SCHEDULE_SECONDS[-1]))
    return wait * random.uniform(1.0, 1.0 + JITTER_SHARE)


FIRST_ROOM = 2
"""Deliveries at once to an endpoint that never took one: a stranger that hangs holds two of our threads."""
BREAKS_AFTER = 5
"""Failures in a row that open the breaker."""
REST_SECONDS, LONGEST_REST_SECONDS = 10.0, 300.0
"""The first rest of an endpoint, which each further failure doubles, and how late it may notice that it is back."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What one process knows of one endpoint (a tenant at one host): a breaker, and a cap that is earned.

    Who never answered gets little; each success earns one place more. Failures in a row open the breaker: nothing is
    sent while the endpoint rests, then one attempt at a time, until one succeeds.
    """

    failures: int = 0
    """In a row."""
    successes: int = 0
    """In a row."""
    rests_until: float = 0.0

    def room(self, most: int, now: float) -> int:
        """How many deliveries it may have under way at once."""
        if now < self.rests_until:
            return 0
        if self.failures >= BREAKS_AFTER:
            return 1
        return min(most, FIRST_ROOM + self.successes)

    def succeeded(self) -> Endpoint:
        return Endpoint(successes=self.successes + 1)

    def failed(self, now: float, random: Random) -> Endpoint:
        failures = self.failures + 1
        after = replace(self, failures=failures, successes=0)
        if failures < BREAKS_AFTER:
            return after
        rest = min(LONGEST_REST_SECONDS, REST_SECONDS * 2.0 ** min(failures - BREAKS_AFTER, 32))
        return replace(after, rests_until=now + rest * random.uniform(1.0 - JITTER_SHARE, 1.0))
