"""What holds for every model back end, asked of each of them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from headwater.connectors.media import probe
from headwater.connectors.models.protocol import Output, Stopped, Wish
from headwater.rules.jobs.capabilities import Capabilities, refusals

AWKWARD = "--help {job} $(touch /tmp/x) 'a' \"b\"\n; rm -rf / \\ 😀 ٣ ﷽ " + "fox " * 900


@pytest.fixture
def asked(case, work):
    def made(**changes):
        return work(**{"size": case.size, "seconds": case.seconds, **changes})

    return made


def test_capabilities_are_known_before_it_is_loaded_and_travel_as_json(case):
    capabilities = case.model.capabilities()

    assert Capabilities.from_json(json.loads(json.dumps(capabilities.to_json()))) == capabilities
    assert capabilities.container == case.container
    request = {"prompt": "x", "size": case.size, "seconds": str(case.seconds), "has_input": False}
    assert refusals(capabilities, parameters={}, **request) == ()
    assert refusals(capabilities, parameters=case.slow, **request) == ()


@pytest.mark.parametrize("prompt", ["a red fox", AWKWARD, ""], ids=["plain", "awkward", "empty"])
def test_what_it_makes_is_one_output_below_the_works_folder_as_asked(case, asked, notes, prompt):
    case.model.load()
    one = asked(prompt=prompt)

    (outcome,) = case.model.generate([one], notes())

    assert isinstance(outcome, Output)
    assert outcome.path.is_relative_to(one.folder)
    probed = probe(outcome.path, case.container)
    if case.container == "mp4":
        assert (probed.width, probed.height, probed.seconds) == (64, 64, pytest.approx(case.seconds, abs=0.2))
    else:
        assert probed.bytes == 1024


def test_its_steps_only_grow_and_end_with_the_last(case, asked, notes):
    case.model.load()
    course = notes()

    case.model.generate([asked()], course)

    assert course.steps == sorted(course.steps)
    assert course.steps[-1][0] == course.steps[-1][1] > 0
    assert len({steps for _, steps in course.steps if steps}) == 1


@pytest.mark.parametrize("wish", [Wish.stop, Wish.leave])
def test_it_stops_soon_when_that_is_wished(case, asked, notes, server, wish):
    case.model.load()
    server.delay_seconds = 100
    started = time.monotonic()

    (outcome,) = case.model.generate([asked(parameters=case.slow)], notes(wishes={-1: wish}))

    assert outcome == Stopped()
    assert time.monotonic() - started < 30  # each would take 100 s and more
    server.delay_seconds = 0


def test_it_serves_the_next_work_after_one_that_was_stopped(case, asked, notes, server):
    case.model.load()
    server.delay_seconds = 100
    case.model.generate([asked(parameters=case.slow)], notes(wishes={-1: Wish.stop}))
    server.delay_seconds = 0

    (outcome,) = case.model.generate([asked()], notes())

    assert isinstance(outcome, Output)


def test_two_works_do_not_meet(case, asked, notes):
    case.model.load()
    one, other = asked(job="video_1"), asked(job="video_2")

    outcomes = [case.model.generate([each], notes())[0] for each in (one, other)]

    assert [Path(outcome.path).parent for outcome in outcomes] == [one.folder, other.folder]
