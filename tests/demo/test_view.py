"""The demo's screen, on a terminal and without one."""

from __future__ import annotations

import io

from rich.console import Console

from headwater.demo.view import GroupLag, Rates, Screen, Snapshot, Stage, excerpt, plain, river, size
from headwater.stack.progress import Step


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
    assert "found 10 (9.5 MiB)" in lines[-1]
    assert "upload-files 7 (3 s)" in lines[-1]
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_table_shows_stages_rates_and_lag() -> None:
    console, out = printed(terminal=True)
    rates = Rates()
    rates.add(0.0, snapshot(0))
    rates.add(2.0, snapshot(10, records=7))
    console.print(river(snapshot(10, records=7), rates))
    text = out.getvalue()
    assert all(word in text for word in ("found", "9.5 MiB", "4.8", "upload-files", "7 (3 s)"))


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


def test_a_state_that_did_not_change_is_not_told_again() -> None:
    console, out = printed(terminal=False)
    now = [0.0]
    with Screen(console, clock=lambda: now[0]) as screen:
        for second in range(11):
            now[0] = float(second)
            screen.show(snapshot(files=3))
    assert len(out.getvalue().splitlines()) == 1


def test_a_long_answer_is_cut_to_a_few_lines_of_each_kind_and_its_sum() -> None:
    lines = [f"+ new {number}" for number in range(40)] + [f"- old {number}" for number in range(2)] + ["", "the sum"]
    assert excerpt(lines) == ["+ new 0", "+ new 1", "+ new 2", "- old 0", "- old 1", "… 37 lines more", "the sum"]
    assert excerpt(lines[-5:]) == lines[-5:]


def test_when_nothing_waits_the_lag_line_says_none() -> None:
    assert plain(snapshot(3)).endswith("lag: none")


def test_sizes_are_in_powers_of_1024() -> None:
    shown = [size(count) for count in (0, 1023, 1024, 66 * 2**20, 2_500_000_000)]
    assert shown == ["0 B", "1,023 B", "1.0 KiB", "66.0 MiB", "2.3 GiB"]
