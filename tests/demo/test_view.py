"""The demo's screen, on a terminal and without one."""

from __future__ import annotations

import io

from rich.console import Console

from headwater.demo.view import GroupLag, Rates, Screen, Snapshot, Stage, plain, river, size
from headwater.stack import Step


def snapshot(files: int, records: int = 0) -> Snapshot:
    return Snapshot(
        stages=(Stage("found", "in the catalog", files, files * 1_000_000),),
        lags=(GroupLag("upload-files", records, 3.4 if records else 0.0),),
    )


def printed(*, terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=100, highlight=False), out


def test_rates_are_over_the_recent_window_only() -> None:
    rates = Rates()
    for second in range(20):
        rates.add(float(second), snapshot(files=0 if second < 10 else (second - 10) * 4))
    files, bytes_ = rates.of("found")
    assert (round(files, 6), round(bytes_)) == (4.0, 4_000_000)


def test_one_snapshot_has_no_rate_yet() -> None:
    rates = Rates()
    rates.add(1.0, snapshot(5))
    assert rates.of("found") == (0.0, 0.0)


def test_without_a_terminal_a_line_comes_every_few_seconds_not_at_every_look() -> None:
    console, out = printed(terminal=False)
    now = [0.0]
    with Screen(console, clock=lambda: now[0]) as screen:
        for second in range(11):
            now[0] = float(second)
            screen.show(snapshot(files=second, records=7))
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["0:00", "0:05", "0:10"]
    assert "found 10 (10 MB)" in lines[-1]
    assert "upload-files 7 (3 s)" in lines[-1]
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_table_shows_stages_rates_and_lag() -> None:
    console, out = printed(terminal=True)
    rates = Rates()
    rates.add(0.0, snapshot(0))
    rates.add(2.0, snapshot(10, records=7))
    console.print(river(snapshot(10, records=7), rates))
    text = out.getvalue()
    assert all(word in text for word in ("found", "10 MB", "5.0", "upload-files", "7 (3 s)"))


def test_names_with_markup_and_newlines_are_shown_as_they_are() -> None:
    console, out = printed(terminal=False)
    with Screen(console) as screen:
        screen.say("renamed [bold]odd[/] name")
        screen.quote("headwater dataset diff 1 2", "+ added [x].jpg")
    assert "renamed [bold]odd[/] name" in out.getvalue()
    assert "    + added [x].jpg" in out.getvalue()


def test_steps_of_the_stack_are_told_when_they_took_time() -> None:
    console, out = printed(terminal=False)
    with Screen(console) as screen:
        screen.step(Step("lakefs", "build", 300))
        screen.step(Step("lakefs", "build", 300, seconds=141.5))
        screen.step(Step("s3", "check", 1))
        screen.step(Step("s3", "check", 1, seconds=0.01))
    text = out.getvalue()
    assert "lakefs: build, about 300 s" in text
    assert "lakefs: build, 141.5 s" in text
    assert "s3" not in text


def test_when_nothing_waits_the_lag_line_says_none() -> None:
    assert plain(snapshot(3)).endswith("lag: none")


def test_sizes_read_as_disks_are_sold() -> None:
    assert [size(n) for n in (0, 999, 1_000, 427_209_160, 2_500_000_000)] == [
        "0 B",
        "999 B",
        "1 kB",
        "427 MB",
        "2.5 GB",
    ]
