"""``headwater registry``: the schemas of the log, for consoles and deserializers of others."""

from __future__ import annotations

import signal
from threading import Event
from typing import Annotated

import typer

from headwater.cli import frame, output


def registry(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for other hosts.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: a free one.")] = 8081,
) -> None:
    """Serve the schemas to consoles, as a registry.

    Read only, until Ctrl-C. Kafbat UI, AKHQ, Redpanda Console and any client with a registry deserializer decode our
    topics with it. Every process that `headwater run` or `headwater sync` starts serves the same at its own address.
    """
    from headwater.cli.service import registry_of
    from headwater.observe.config import HttpConfig
    from headwater.observe.http import Health, ProcessServer

    served = registry_of(frame.of(context).settings)
    with ProcessServer(HttpConfig(host, port), served, lambda: Health(True, "running")) as server:
        output.say(output.console(), f"Schema Registry (read only) at {server.url}; try {server.url}/subjects")
        stopped = Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        stopped.wait()
