"""``headwater jobs watch``: one job until it ends, by its stream of events."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.cli.jobs import text

if TYPE_CHECKING:
    from headwater.connectors.api.client import Client

WITHOUT_RESULT = 3
_BAR_WIDTH = 60


def watch(context: typer.Context, job: text.Job, as_json: AsJson = False) -> None:
    """Follow a job until it ends.

    Live on a terminal; elsewhere a line for each change. A service that goes away meanwhile is waited for. Exit code 3:
    it ended without a video.
    """
    follow(frame.of(context).client, job, as_json=as_json)


def follow(client: Client, job: str, *, as_json: bool) -> None:
    """Shows the job until it ends. Raises Exit where it ended without a video."""
    if as_json:
        video = _lines_of_json(client, job)
    elif sys.stdout.isatty():
        video = _live(client, job)
    else:
        video = _lines(client, job)
    if video["status"] != "completed":
        raise typer.Exit(WITHOUT_RESULT)
    if not as_json:
        output.console().print(f"`headwater jobs download {job}` fetches it.", style="dim", soft_wrap=True)


def _lines_of_json(client: Client, job: str) -> text.Video:
    for video in _changes(client, job):
        output.print_json(video, lines=True)
    return video


def _lines(client: Client, job: str) -> text.Video:
    """A line where something changed that is worth one: every percent would be too many."""
    said = ""
    for video in _changes(client, job):
        tenth = f"{video['status']} {video['attempt']} {video['progress'] // 10}"
        if tenth != said:
            said = tenth
            output.console().print(text.line(video), soft_wrap=True)
    return video


def _live(client: Client, job: str) -> text.Video:
    with Live(console=output.console(), auto_refresh=False) as live:
        for video in _changes(client, job):
            bar = ProgressBar(100, video["progress"], _BAR_WIDTH, complete_style="cyan", finished_style="green")
            live.update(Group(text.line(video), bar), refresh=True)
    return video


def _changes(client: Client, job: str) -> Iterator[text.Video]:
    """The job after each event, and at last as it ended: events say what changed, and no more. At least one."""
    video: dict[str, Any] = {}
    for event in client.events(job):
        video |= event.data
        if video["status"] not in text.FINAL:
            yield video
    yield client.get(job)
