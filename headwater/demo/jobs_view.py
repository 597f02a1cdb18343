"""How jobs are shown while they run: a bar for each on a terminal, a line elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BAR_WIDTH = 32
Video = Mapping[str, Any]


def picture(videos: Sequence[Video]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("prompt", style="bold", min_width=10)
    table.add_column("status", min_width=11)
    table.add_column("", width=BAR_WIDTH)
    table.add_column("", justify="right", min_width=5)
    table.add_column("attempt", justify="right")
    for video in videos:
        table.add_row(
            Text(video["prompt"]),
            video["status"],
            ProgressBar(100, video["progress"], BAR_WIDTH, complete_style="cyan", finished_style="green"),
            f"{video['progress']} %",
            str(video["attempt"] or ""),
        )
    return table


def plain(videos: Sequence[Video]) -> str:
    return " · ".join(f"{video['prompt']}: {_standing(video)}" for video in videos)


def _standing(video: Video) -> str:
    if video["status"] != "in_progress":
        return str(video["status"])
    again = f", attempt {video['attempt']}" if video["attempt"] > 1 else ""
    return f"{video['progress']} %{again}"
