"""``headwater jobs cancel | delete | undelete | redrive``: an owner's word to a job."""

from __future__ import annotations

import typer

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.cli.jobs import text


def cancel(context: typer.Context, job: text.Job, as_json: AsJson = False) -> None:
    """Stop a job, wherever it is.

    One that waits is cancelled at once; one that runs, when its worker has proved that it stopped. A job that ended
    already stays as it is.
    """
    _print(frame.of(context).client.cancel(job), as_json=as_json)


def delete(context: typer.Context, job: text.Job, as_json: AsJson = False) -> None:
    """Remove a job that ended from sight.

    It can be had back with `headwater jobs undelete` until its result expires.
    """
    frame.of(context).client.delete(job)
    if as_json:
        output.print_json({"id": job, "deleted": True})
        return
    output.say(output.console(), f"{job} is deleted. `headwater jobs undelete {job}` brings it back.")


def undelete(context: typer.Context, job: text.Job, as_json: AsJson = False) -> None:
    """Bring back a job that was deleted."""
    _print(frame.of(context).client.undelete(job), as_json=as_json)


def redrive(context: typer.Context, job: text.Job, as_json: AsJson = False) -> None:
    """Ask again for what a failed job should have made.

    It is a new job with an id of its own, and names the old one.
    """
    _print(frame.of(context).client.redrive(job), as_json=as_json)


def _print(video: text.Video, *, as_json: bool) -> None:
    if as_json:
        output.print_json(video)
    else:
        output.console().print(text.line(video), soft_wrap=True)
