"""Alive and silent is told from idle: on a clock that the test turns."""

from headwater.streams.views.watchdog import Watchdog


def test_a_reader_that_takes_nothing_while_the_log_grows_is_stuck_after_the_bound() -> None:
    watchdog = Watchdog(60)

    told = [watchdog.is_stuck(now, end=100 + now, committed=100, taken=0) for now in (0, 5, 30, 64, 65, 70)]

    assert told == [False, False, False, False, True, True]


def test_a_reader_that_never_begins_is_stuck_although_the_log_does_not_grow() -> None:
    watchdog = Watchdog(60)

    told = [now for now in range(0, 100, 5) if watchdog.is_stuck(now, end=100, committed=40, taken=0)]

    assert told[0] == 60


def test_where_all_is_read_silence_is_no_reason() -> None:
    watchdog = Watchdog(60)

    assert not any(watchdog.is_stuck(now, end=100, committed=100, taken=0) for now in range(0, 1_000, 5))


def test_all_is_read_once_it_is_taken_though_not_yet_committed() -> None:
    watchdog = Watchdog(60)
    assert not watchdog.is_stuck(0, end=100, committed=40, taken=0)

    assert not any(watchdog.is_stuck(now, end=100, committed=40, taken=60) for now in range(5, 1_000, 5))


def test_each_record_taken_begins_the_wait_anew() -> None:
    watchdog = Watchdog(60)

    assert not any(watchdog.is_stuck(now, end=100 + now, committed=100, taken=now // 50) for now in range(0, 1_000, 5))


def test_what_another_member_commits_counts_too() -> None:
    watchdog = Watchdog(60)

    assert not any(
        watchdog.is_stuck(now, end=100 + now, committed=40 + now // 50, taken=0) for now in range(0, 1_000, 5)
    )


def test_a_reader_that_took_something_and_then_nothing_is_stuck() -> None:
    watchdog = Watchdog(60)
    for now in range(0, 100, 5):
        assert not watchdog.is_stuck(now, end=now, committed=0, taken=now)

    told = [now for now in range(100, 200, 5) if watchdog.is_stuck(now, end=now, committed=0, taken=95)]

    assert told[0] == 160


def test_an_outage_of_the_log_is_not_held_against_the_reader() -> None:
    watchdog = Watchdog(60)
    assert not watchdog.is_stuck(0, end=100, committed=40, taken=0)

    watchdog.forgive()

    assert not watchdog.is_stuck(90, end=100, committed=40, taken=0)
    assert watchdog.is_stuck(150, end=100, committed=40, taken=0)
