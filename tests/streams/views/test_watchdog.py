"""Alive and silent is told from idle: on a clock that the test turns."""

from headwater.streams.views.watchdog import Watchdog


def test_a_reader_that_takes_nothing_while_the_log_grows_is_stuck_after_the_bound() -> None:
    watchdog = Watchdog(60)

    told = [watchdog.is_stuck(now, end=100 + now, taken=7) for now in (0, 5, 30, 64, 65, 70)]

    assert told == [False, False, False, False, True, True]


def test_a_log_that_does_not_grow_is_no_reason() -> None:
    watchdog = Watchdog(60)

    assert not any(watchdog.is_stuck(now, end=100, taken=0) for now in range(0, 1_000, 5))


def test_each_record_taken_begins_the_wait_anew() -> None:
    watchdog = Watchdog(60)

    assert not any(watchdog.is_stuck(now, end=100 + now, taken=now // 50) for now in range(0, 1_000, 5))


def test_a_reader_that_took_something_and_then_nothing_is_stuck() -> None:
    watchdog = Watchdog(60)
    for now in range(0, 100, 5):
        assert not watchdog.is_stuck(now, end=now, taken=now)

    told = [now for now in range(100, 200, 5) if watchdog.is_stuck(now, end=now, taken=95)]

    assert told[0] == 160
