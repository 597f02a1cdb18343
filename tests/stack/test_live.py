from __future__ import annotations

import io

from rich.console import Console

from headwater.stack.live import live
from headwater.stack.progress import step


def test_without_a_terminal_a_finished_step_is_one_line() -> None:
    output = io.StringIO()
    with live(Console(file=output, width=100)) as report, step(report, "kafka", "start", 6):
        assert output.getvalue() == ""
    assert output.getvalue().startswith("kafka     start: 0.0 s")


def test_without_a_terminal_a_long_step_says_how_long_it_takes_before_it_begins() -> None:
    output = io.StringIO()
    with live(Console(file=output, width=100)) as report, step(report, "lakefs", "build lakefs 1.84.0", 300):
        assert "build lakefs 1.84.0 (about 300 s)" in output.getvalue()


def test_on_a_terminal_every_step_stays_visible_once() -> None:
    output = io.StringIO()
    with live(Console(file=output, width=100, force_terminal=True)) as report:
        with step(report, "lakefs", "build", 300), step(report, "s3", "build", 130):
            pass
        with step(report, "s3", "start", 1):
            pass
    last_frame = output.getvalue().rsplit("\x1b[1A", 1)[-1]
    assert last_frame.count("✓") >= 1
    assert "start (about 1 s)" in last_frame
