"""The demo's receiver tells what we signed from what others sent."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx

from headwater.consumers.webhooks.attempt import signed
from headwater.demo.receiver import Receiver
from headwater.rules.jobs.webhooks import new_secret, webhook_body, webhook_id

SECRET, OTHER = new_secret(bytes(32)), new_secret(bytes(range(32)))


def test_a_webhook_is_right_by_its_secret_alone() -> None:
    now = datetime.now(UTC)
    body = webhook_body("video.completed", now, {"id": "video_1"})
    with Receiver(SECRET) as receiver:
        answers = [
            httpx.post(
                receiver.url, content=body, headers=signed(webhook_id("video_1", "video.completed"), now, body, [by])
            )
            for by in (SECRET, OTHER)
        ]

        assert [answer.status_code for answer in answers] == [204, 401]
        assert [(one.right, one.type, one.job) for one in receiver.received()] == [
            (True, "video.completed", "video_1"),
            (False, "video.completed", "video_1"),
        ]
