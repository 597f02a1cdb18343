"""One worker, and the whole way of a job through it."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from headwater.connectors.media import probe

Eventually = Callable[..., Any]


def test_a_granted_job_is_run_and_its_result_is_stored_once(site: Any, eventually: Eventually) -> None:
    site.worker()
    job = site.submit()
    eventually(lambda: site.grant(job), 30)

    view = eventually(lambda: (view := site.job(job)).state == "completed" and view, 30)

    assert view.result_epoch == 1
    stored = site.store.get(view.result["key"])
    assert view.result["key"].startswith(f"r/{job}/1/")
    assert (view.result["bytes"], view.result["sha256"]) == (len(stored), hashlib.sha256(stored).hexdigest())
    (attempt,) = site.attempts(job)
    assert attempt.outcome == "completed"
    assert attempt.gpu_seconds > 0


def test_a_grant_whose_record_was_lost_is_claimed_after_a_beat(site: Any, eventually: Eventually) -> None:
    site.worker()
    job = site.submit()
    eventually(lambda: site.grant(job, tell=False), 30)
    eventually(lambda: site.job(job).state == "completed", 30)
    assert len(site.attempts(job)) == 1


def test_a_video_is_probed_and_shown_and_its_progress_is_told(site: Any, eventually: Eventually, tmp_path: Any) -> None:
    site.testcard(options={"step_seconds": 0.15})
    job = site.submit_card(seconds=2)
    eventually(lambda: site.grant(job), 30)

    view = eventually(lambda: (view := site.job(job)).state == "completed" and view, 60)

    video = tmp_path / "video.mp4"
    video.write_bytes(site.store.get(view.result["key"]))
    probed = probe(video, "mp4")
    assert (probed.frames, probed.width, probed.height) == (16, 64, 64)
    assert (view.result["frames"], view.result["seconds"], view.result["sha256"]) == (16, 2.0, probed.sha256)
    assert site.store.get(view.result["thumbnail"])[:2] == b"\xff\xd8"  # JPEG
    events = [event for event in site.events(job) if event.kind == "progress"]
    assert events
    assert all(event.state == "running" and event.steps == 16 for event in events)
    assert [event.step for event in events] == sorted({event.step for event in events})
    told = pairwise(event for event in events if event.reason == "progress")
    assert all(later.at_us - event.at_us > 900_000 for event, later in told)


def test_a_cancelled_job_is_stopped_and_the_proof_told(site: Any, eventually: Eventually) -> None:
    site.testcard(options={"step_seconds": 0.1})
    job = site.submit_card(seconds=60)
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: (site.lease(job) or (0,))[0] > 0, 30)

    site.cancel(job)

    eventually(lambda: site.job(job).state == "cancelled", 30)
    (attempt,) = site.attempts(job)
    assert attempt.outcome == "cancelled"
    assert attempt.gpu_seconds > 0
    assert site.lease(job) is None
    other = site.submit_card()
    eventually(lambda: site.grant(other), 30)  # the slot is free again
    eventually(lambda: site.job(other).state == "completed", 30)


def test_a_crash_fails_the_attempt_with_the_end_of_its_log_and_the_next_one_goes_on(
    site: Any, eventually: Eventually
) -> None:
    site.testcard()
    job = site.submit_card(seconds=2, crash_at_step=12, until_epoch=1)
    eventually(lambda: site.grant(job), 30)
    eventually(lambda: site.job(job).state == "queued", 30)

    (attempt,) = site.attempts(job)
    assert (attempt.outcome, attempt.code) == ("failed", "crashed")
    assert "Segmentation fault" in attempt.log_tail

    eventually(lambda: site.grant(job), 30)
    eventually(lambda: site.job(job).state == "completed", 60)
    assert site.attempts(job)[1].resumed_step == 8  # a checkpoint a second of video


def test_a_model_that_hangs_loses_its_attempt_and_only_that(site: Any, eventually: Eventually) -> None:
    site.testcard(options={"step_limit_seconds": 1.0}, slots=2)
    hangs = site.submit_card(seconds=1, hang_at_step=4, until_epoch=1)
    other = site.submit_card(seconds=4, step_seconds=0.15)
    eventually(lambda: site.grant(hangs, other), 30)

    eventually(lambda: site.job(hangs).state == "queued", 30)
    (attempt,) = site.attempts(hangs)
    assert (attempt.outcome, attempt.code) == ("failed", "timed_out")

    eventually(lambda: site.grant(hangs), 30)
    eventually(lambda: site.job(hangs).state == "completed" and site.job(other).state == "completed", 60)
    assert len(site.attempts(other)) == 1


def test_failures_carry_their_code(site: Any, eventually: Eventually) -> None:
    site.testcard(slots=2)
    refused = site.submit_card(fail_at_step=2, fail_code="content_refused")
    transient = site.submit_card(fail_at_step=2, fail_code="driver", until_epoch=1)
    eventually(lambda: site.grant(refused, transient), 30)
    eventually(lambda: site.job(refused).state == "failed" and site.job(transient).state == "queued", 30)
    assert site.job(refused).error_code == "content_refused"
    assert site.attempts(transient)[0].code == "driver"


def test_compatible_jobs_run_in_one_batch(site: Any, eventually: Eventually) -> None:
    site.testcard(slots=4, options={"max_batch": 4, "step_seconds": 0.2})
    jobs = [site.submit_card(seconds=1) for _ in range(3)]
    eventually(lambda: site.grant(*jobs), 30)
    eventually(lambda: all(site.job(job).state == "completed" for job in jobs), 60)
    shared = [site.attempts(job)[0].gpu_seconds for job in jobs]
    assert len(set(shared)) < 3  # those of a batch share its seconds


def test_a_worker_with_a_wrong_key_ends_and_says_why(site: Any) -> None:
    process = site.worker(key="another key")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Refused" in said
    assert "worker.key_file" in said


def test_a_worker_with_wrong_options_ends_and_says_why(site: Any) -> None:
    process = site.worker(options={"max_bach": 3})
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "BadSettings" in said
    assert "max_batch" in said


def test_of_two_workers_with_one_name_on_a_host_the_second_is_refused(site: Any, eventually: Eventually) -> None:
    first = site.worker()
    job = site.submit()
    eventually(lambda: site.grant(job), 30)
    second = site.worker()
    said, _ = second.communicate(timeout=60)
    assert (second.returncode, "worker.name" in said) == (1, True)
    eventually(lambda: site.job(job).state == "completed", 30)
    first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 0


def test_of_two_workers_with_one_name_on_two_hosts_the_older_ends(site: Any, eventually: Eventually) -> None:
    first = site.worker()
    job = site.submit()
    eventually(lambda: site.grant(job), 30)
    site.worker(work_folder=str(site.folder / "elsewhere"))
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "Fenced" in said
