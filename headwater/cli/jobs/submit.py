"""``headwater jobs submit``: one request for a video."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

import typer

from headwater.cli import frame, output
from headwater.cli.cast import quantities
from headwater.cli.frame import AsJson
from headwater.cli.jobs import text
from headwater.cli.jobs.watch import follow
from headwater.rules.errors import BadSettings


def submit(
    context: typer.Context,
    prompt: Annotated[str, typer.Argument(help="What the video shall show.")],
    model: Annotated[str, typer.Option(help="Which model makes it.")],
    seconds: Annotated[str | None, typer.Option(help="Its length in whole seconds. Default: the service's.")] = None,
    size: Annotated[str | None, typer.Option(metavar="WxH", help="Default: the model's first.")] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--parameter", metavar="NAME=VALUE", help="Of the model; the value may be JSON.")
    ] = None,
    input_url: Annotated[str | None, typer.Option(metavar="URL", help="A picture or clip to begin from.")] = None,
    priority: Annotated[int, typer.Option(help="Among your own jobs: a higher one goes first.")] = 0,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="Have it by then, or not at all: 90s, 10min, 2026-12-01T08:00.")
    ] = None,
    webhook_url: Annotated[str | None, typer.Option(metavar="URL", help="Who is told when it ends.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", metavar="NAME=VALUE", help="Yours: kept, and told back.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--key", metavar="TEXT", help="Asked twice with one key, it is one job.")
    ] = None,
    allow_deferred: Annotated[
        bool, typer.Option("--allow-deferred", help="Take it even if it starts later than the service promises.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until it ends.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask for a video. It is kept once this returns.

    Prints the job's id. With --watch, exit code 3 means that it ended without a video.
    """
    given = {
        "prompt": prompt,
        "model": model,
        "seconds": seconds,
        "size": size,
        "parameters": dict(_assigned(parameters or (), "--parameter", _value)),
        "input_url": input_url,
        "priority": priority,
        "deadline": None if deadline is None else _deadline(deadline),
        "webhook_url": webhook_url,
        "metadata": dict(_assigned(metadata or (), "--metadata", str)),
        "allow_deferred": allow_deferred,
    }
    request = {name: value for name, value in given.items() if value not in (None, {}, False)}
    client = frame.of(context).client
    video = client.submit(request, idempotency_key=idempotency_key)
    if watch:
        follow(client, video["id"], as_json=as_json)
    elif as_json:
        output.print_json(video)
    else:
        console = output.console()
        console.print(text.line(video), soft_wrap=True)
        console.print(f"`headwater jobs watch {video['id']}` follows it.", style="dim", soft_wrap=True)


def _deadline(given: str) -> int:
    """Unix seconds of a time, or of a length of time from now."""
    try:
        return int(datetime.fromisoformat(given).timestamp())
    except ValueError:
        return int(time.time() + quantities.span(given))


def _assigned(assignments: Iterable[str], option: str, read: Any) -> Iterable[tuple[str, Any]]:
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not (name and equals):
            raise BadSettings(
                f"{option} {assignment} has no value.",
                asked="A job was to be submitted.",
                kept="Nothing was submitted.",
                advice=f"Write {option} NAME=VALUE.",
            )
        yield name, read(value)


def _value(given: str) -> Any:
    """JSON where it is JSON, else the text itself."""
    try:
        return json.loads(given)
    except ValueError:
        return given
