"""``headwater jobs download``: the video itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.cli.jobs import text
from headwater.rules.errors import Refused, Unavailable


def download(
    context: typer.Context,
    job: text.Job,
    into: Annotated[Path | None, typer.Option("--into", help="File or folder. Default: ./JOB.mp4.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the video of a completed job.

    From the store itself, by an address that is good for an hour. A file that is there already is not touched.
    """
    file = into or Path()
    file = file / f"{job}.mp4" if file.is_dir() else file
    if file.exists():
        raise Refused(
            f"{file} is there already.",
            asked=f"The video of {job} was to be fetched.",
            kept="It was not touched.",
            advice="Move it away, or name another with --into.",
        )
    size = _fetch(frame.of(context).client.content_url(job), file)
    if as_json:
        output.print_json({"id": job, "file": file, "bytes": size})
        return
    output.say(output.console(), f"{file}: {output.size(size)}")


def _fetch(url: str, file: Path) -> int:
    """The bytes, under their name once all are there. Returns how many. Raises Unavailable."""
    import httpx

    draft = file.with_name(f"{file.name}.part")
    try:
        with httpx.stream("GET", url, timeout=_SILENT_SECONDS) as answer, draft.open("wb") as into:
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                into.write(piece)
        draft.replace(file)
    except httpx.HTTPError as error:
        raise Unavailable(
            f"the store at {httpx.URL(url).netloc.decode()} did not give it: {error}",
            asked="A finished video was to be fetched.",
            kept="It is kept there.",
            advice="Run the command again.",
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return file.stat().st_size


_SILENT_SECONDS = 30.0
