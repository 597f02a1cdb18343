"""``headwater demo``: the whole river, one cast and some videos in a few minutes, on real media."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Carry a copy of this folder (up to 2 GB of it) instead of made media.")
    ] = None,
    keep_running: Annotated[bool, typer.Option("--keep-running", help="Leave everything running at the end.")] = False,
) -> None:
    """Show all of it in minutes, on real media.

    Brings the stack up, carries a folder of photographs and clips into a dataset, edits, renames, deletes and adds
    files while it runs, kills members with kill -9, and checks every byte of the result; then casts one of the files to
    eight peers in two racks, kills one of them, and checks every byte again; then has videos made from prompts, kills a
    worker in the midst of one, and plays the result. Uses ./headwater.toml and ./.headwater, which `headwater up` goes
    on with; a demo that runs again starts afresh. Your own folder is only read.
    """
    from headwater.demo.show import show

    show(folder, keep_running=keep_running)
