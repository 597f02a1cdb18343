"""The test card: the same video each time, also across attempts, and the failures that it plays."""

from __future__ import annotations

import av
import numpy as np
import pytest

from headwater.connectors.models.backends import build
from headwater.connectors.models.protocol import Failure, ModelError, Output, Stopped, Wish, failure_of
from headwater.rules.jobs.capabilities import refusals


@pytest.fixture
def testcard():
    model = build("testcard", {"faults": True})
    model.load()
    return model


def frames(path) -> list[np.ndarray]:
    with av.open(str(path)) as video:
        return [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]


def made(model, one, course) -> bytes:
    (outcome,) = model.generate([one], course)
    assert isinstance(outcome, Output)
    return outcome.path.read_bytes()


def test_the_same_request_makes_the_same_bytes(testcard, work, notes):
    assert made(testcard, work(), notes()) == made(testcard, work(), notes())


@pytest.mark.parametrize("change", [{"prompt": "a blue fox"}, {"parameters": {"seed": 1}}, {"seconds": 3}])
def test_another_request_makes_another_video(testcard, work, notes, change):
    assert made(testcard, work(**change), notes()) != made(testcard, work(), notes())


def test_it_is_a_video_in_which_the_prompt_is_drawn_and_progress_is_seen(testcard, work, notes):
    one, other = work(size="640x360", prompt="fox"), work(size="640x360", prompt="fox" + "!" * 20)
    made(testcard, one, notes())
    made(testcard, other, notes())
    pictures, others = frames(one.folder / "video.mp4"), frames(other.folder / "video.mp4")

    assert len(pictures) == 16  # 2 s of 8 frames
    assert pictures[0].shape == (360, 640, 3)
    caption = np.s_[225:260, :, :]
    assert np.ptp(pictures[0][caption].astype(int)) > 150  # white letters on black
    assert np.abs(pictures[0][caption].astype(int) - others[0][caption]).max() > 150
    bar = [int((picture[350, :, :].max(axis=1) > 100).sum()) for picture in pictures]
    assert bar == sorted(bar)
    assert bar[-1] == pytest.approx(640, abs=4)


@pytest.mark.parametrize("left_at", [3, 8, 11, 15])
def test_an_attempt_that_resumes_makes_the_bytes_of_one_that_ran_through(testcard, work, notes, left_at):
    left = notes(wishes={left_at: Wish.leave})
    (outcome,) = testcard.generate([work(epoch=1)], left)
    assert outcome == Stopped()
    saved = [(step, path) for _, step, path in left.saves]
    resumed = notes()

    bytes_of_it = made(testcard, work(epoch=2, resume=saved[-1][1] if saved else None), resumed)

    assert bytes_of_it == made(testcard, work(), notes())
    assert [step for step, _ in saved] == ([8] if left_at >= 8 else [])
    assert resumed.steps[0][0] == (9 if saved else 1)


def test_a_checkpoint_of_another_video_is_left_aside(testcard, work, notes, clip):
    assert made(testcard, work(resume=clip), notes()) == made(testcard, work(), notes())


def test_a_checkpoint_is_not_touched_again(testcard, work, notes):
    course = notes()
    made(testcard, work(seconds=4), course)

    assert [step for _, step, _ in course.saves] == [8, 16, 24]
    assert [len(frames(path)) for _, _, path in course.saves] == [8, 16, 24]


def test_works_of_a_batch_make_what_they_make_alone(work, notes):
    model = build("testcard", {"max_batch": 3})
    model.load()
    alone = [made(model, work(seconds=seconds), notes()) for seconds in (1, 2, 4)]

    outcomes = model.generate([work(seconds=seconds) for seconds in (1, 2, 4)], notes())

    assert [outcome.path.read_bytes() for outcome in outcomes] == alone


def test_a_work_that_is_told_to_fail_fails_with_its_code(testcard, work, notes):
    course = notes()

    with pytest.raises(ModelError) as raised:
        testcard.generate([work(parameters={"fail_at_step": 5, "fail_code": "driver"})], course)

    assert failure_of(raised.value) == Failure("driver", "It was asked to fail at step 5.")
    assert course.steps[-1][0] == 5


def test_out_of_memory_is_known_as_such(testcard, work, notes):
    with pytest.raises(MemoryError) as raised:
        testcard.generate([work(parameters={"oom_at_step": 0})], notes())

    assert failure_of(raised.value).code == "out_of_memory"


def test_failures_end_with_the_attempt_that_they_are_asked_for(testcard, work, notes):
    asked = {"fail_at_step": 0, "until_epoch": 2}

    with pytest.raises(ModelError):
        testcard.generate([work(epoch=2, parameters=asked)], notes())
    made(testcard, work(epoch=3, parameters=asked), notes())


def test_only_a_worker_that_allows_it_lets_requests_fail():
    request = {"prompt": "x", "size": "64x64", "seconds": "1", "has_input": False}
    strict, lenient = build("testcard", {}).capabilities(), build("testcard", {"faults": True}).capabilities()

    assert [one.field for one in refusals(strict, parameters={"crash_at_step": 1}, **request)] == ["parameters"]
    assert refusals(lenient, parameters={"crash_at_step": 1}, **request) == ()
    assert refusals(strict, parameters={"seed": 7}, **request) == ()
