"""How a cast is shown while it runs: a bar for each rack on a terminal, a line elsewhere."""

from __future__ import annotations

from statistics import fmean

from rich import box
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headwater.demo.view import size
from headwater.schemas.cast_history import CastHistory
from headwater.schemas.cast_records import CastRack

BAR_WIDTH = 32


def share(history: CastHistory) -> float:
    """How much of the file is there, by the racks' medians."""
    racks = _racks(history)
    return fmean(_part(rack.median, history) for rack in racks) if racks else 0.0


def picture(history: CastHistory) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rack", style="bold", min_width=10)
    table.add_column("hosts", justify="right")
    table.add_column("", width=BAR_WIDTH)
    for name in ("least", "median", "most", "MiB/s", "whole"):
        table.add_column(name, justify="right", min_width=6)
    table.add_column("silent or slow", style="yellow", no_wrap=True)
    for rack in _racks(history):
        table.add_row(
            Text(_label(rack)),
            str(rack.hosts),
            ProgressBar(1.0, _part(rack.median, history), BAR_WIDTH, complete_style="cyan", finished_style="green"),
            *(f"{_part(chunks, history):.0%}" for chunks in (rack.least, rack.median, rack.most)),
            f"{rack.bytes_per_second / 2**20:,.1f}" if rack.bytes_per_second else "",
            f"{rack.complete}/{rack.hosts}",
            Text(" ".join((*rack.silent, *rack.slow))),
        )
    return table


def plain(history: CastHistory) -> str:
    return " · ".join(_line(rack, history) for rack in _racks(history))


def _line(rack: CastRack, history: CastHistory) -> str:
    least, median, most = (f"{_part(chunks, history):.0%}" for chunks in (rack.least, rack.median, rack.most))
    troubled = " ".join((*rack.silent, *rack.slow))
    return (
        f"{_label(rack)} {median} ({least} to {most}), {size(rack.bytes_per_second)}/s, "
        f"{rack.complete} of {rack.hosts} whole" + (f", silent or slow: {troubled}" if troubled else "")
    )


def _racks(history: CastHistory) -> list[CastRack]:
    return [rack for _, rack in sorted(history.racks.items())]


def _label(rack: CastRack) -> str:
    return rack.rack or "(no label)"


def _part(chunks: int, history: CastHistory) -> float:
    return chunks / max(1, history.manifest.chunks.count)
