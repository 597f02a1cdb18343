"""One job's way through the database, from POST to its result."""

from __future__ import annotations

from tests.any_job import Place


def test_a_job_goes_from_post_to_its_result(place: Place) -> None:
    job = place.submit(webhook_url="https://example.org/hook")
    (attempt,) = place.grant(job)
    (claimed,) = place.claim(attempt)
    assert (claimed.request["prompt"], attempt.epoch) == ("a red fox", 1)
    assert place.complete(attempt) == ["won"]

    row = place.query("SELECT state, version, epoch, result_epoch, progress FROM jobs")
    assert row == [("completed", 4, 1, 1, 100)]
    assert place.query("SELECT epoch, outcome, worker FROM attempts") == [(1, "completed", "w1")]
    assert place.query("SELECT type, url FROM deliveries") == [("video.completed", "https://example.org/hook")]
    assert place.query("SELECT gpu_seconds FROM charges") == [(2.0,)]
    assert place.query("SELECT count(*) FROM leases") == [(0,)]
    states = place.query("SELECT state, version, epoch FROM outbox ORDER BY seq")
    assert states == [("queued", 1, 0), ("granted", 2, 1), ("running", 3, 1), ("completed", 4, 1)]
