"""``headwater worker``: a model on this host, at the service of one pool."""

from __future__ import annotations

import signal
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli import frame
from headwater.cli.frame import AsJson, Frame
from headwater.rules.errors import BadSettings

if TYPE_CHECKING:
    from headwater.consumers.worker.config import WorkerConfig

_LOOK_SECONDS = 0.5


def worker(
    context: typer.Context,
    pool: Annotated[str, typer.Option(help="The pool that it serves: workers with like hardware.")],
    model: Annotated[str, typer.Option(metavar="KIND|FILE", help="testcard, http, command, noop, or a .toml file.")],
    slots: Annotated[int | None, typer.Option(min=1, help="Jobs at once. Default: the setting, 1.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Its name. Default: made of host and pool, the same each time.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Of the model, over the settings'.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a model on this host, for the jobs of a pool.

    Until SIGTERM or Ctrl-C: then jobs may finish for a minute (worker.drain_seconds); those that cannot save a
    checkpoint and are given back. testcard renders a true MP4 from the prompt and needs no GPU; http asks a server of
    the shape of vLLM-Omni; command runs any program; a file names one of these, and says what the model can
    do (docs/models.md). --json makes the log JSON.
    """
    from headwater.cli.service import serving, speaking
    from headwater.connectors.web.client import Web
    from headwater.consumers.worker.worker import Worker
    from headwater.schemas.records import Stage

    the = frame.of(context)
    config = _config(the, slots, name, options or [])
    the.log_as_a_service(as_json=as_json)
    ending = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    made = Worker(config, pool=pool, model=model, kafka=the.kafka, store=the.store, web=Web(the.settings.web))
    with (
        serving(the.settings, made.name, made.health),
        speaking(the.kafka, "worker", Stage.other, made.health),
        made as running,  # the last to be entered, so that it shows how it drains
    ):
        while not ending.wait(_LOOK_SECONDS) and not running.ended():
            pass
    if running.failure is not None:
        raise running.failure


def _config(the: Frame, slots: int | None, name: str | None, options: list[str]) -> WorkerConfig:
    config = the.settings.worker
    if not config.key:
        raise BadSettings(
            "worker.key is not set.",
            asked="A worker was to be started.",
            kept="Nothing was started.",
            advice="Name the file with the key of the fleet's workers (worker.key_file), or set HEADWATER_WORKER__KEY. "
            "On one machine `headwater up` makes one.",
            key="worker.key",
        )
    given = dict(config.options)
    for option in options:
        key, equals, value = option.partition("=")
        if not (key and equals):
            raise BadSettings(
                f"--option {option} has no value.",
                asked="A worker was to be started.",
                kept="Nothing was started.",
                advice="Write --option NAME=VALUE.",
            )
        given[key] = value
    return replace(config, slots=slots or config.slots, name=name or config.name, options=given)
