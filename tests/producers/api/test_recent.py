from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from headwater.producers.api.public.recent import Recent
from headwater.producers.api.public.stream_event import Place, place_of
from headwater.rules.jobs.states import JobState
from headwater.schemas.codec import encode
from headwater.schemas.job_records import EventState, JobEvent, JobEventKind


def _value(place: Place, job: str = "a") -> bytes:
    version, step = place
    event = JobEvent(
        kind=JobEventKind.progress if step else JobEventKind.state,
        job=job,
        version=version,
        epoch=1,
        state=EventState.running,
        pool="p",
        tenant="t",
        progress=0,
        step=step,
        steps=100,
        reason="",
        at_us=0,
    )
    return encode(event)


_PLACES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=20, unique=True)


@given(_PLACES, st.randoms(use_true_random=False))
def test_a_log_that_repeats_and_reorders_is_told_once_and_in_order(places: list[Place], chance: random.Random) -> None:
    recent = Recent(events=100)
    told = [*places, *chance.choices(places, k=len(places))]
    chance.shuffle(told)
    for place in told:
        recent.keep("a", _value(place))
    for place in places:
        events = recent.since("a", place)
        assert events is not None
        assert [event.place for event in events] == sorted(one for one in places if one >= place)
        assert all(place_of(event.id) == event.place and event.state is JobState.running for event in events)


def test_what_is_not_known_any_more_is_said() -> None:
    recent = Recent(jobs=2, events=3)
    for version in range(1, 5):
        recent.keep("a", _value((version, 0)))
    assert recent.since("a", (1, 0)) is None
    assert [event.place for event in recent.since("a", (2, 0)) or ()] == [(2, 0), (3, 0), (4, 0)]
    assert recent.since("a", (9, 9)) is None
    recent.keep("b", _value((1, 0), "b"))
    recent.keep("a", _value((5, 0)))  # heard of last
    recent.keep("c", _value((1, 0), "c"))
    assert recent.since("b", (1, 0)) is None
    assert recent.since("a", (5, 0)) is not None
    recent.forget()
    assert recent.since("a", (5, 0)) is None


def test_garbage_is_nobodys_event() -> None:
    recent = Recent()
    recent.keep("a", b"\x00garbage")
    recent.keep("a", _value((1, 0)))
    assert [event.place for event in recent.since("a", (1, 0)) or ()] == [(1, 0)]
