"""``headwater peer``: the daemon that takes part in every cast which names this host."""

from __future__ import annotations

import signal
from threading import Event
from typing import TYPE_CHECKING

import typer

from headwater.cli import frame
from headwater.cli.frame import AsJson
from headwater.rules.errors import BadSettings

if TYPE_CHECKING:
    from headwater.consumers.peer.peer import Peer
    from headwater.observe.http import Health

_LOOK_SECONDS = 0.5


def peer(context: typer.Context, as_json: AsJson = False) -> None:
    """Receive casts on this host, and hand them on.

    Until SIGTERM or Ctrl-C. Takes part in every cast that names this host or no host; files appear in the folder that
    peer.into names, whole and right, under the names that they were cast with. A restart goes on with what is there.
    --json makes the log JSON.
    """
    from headwater.cli.service import serving, speaking
    from headwater.consumers.peer.peer import Peer
    from headwater.schemas.records import Stage

    the = frame.of(context)
    config = the.settings.peer
    if config.into is None:
        raise BadSettings(
            "peer.into is not set.",
            asked="A peer was to be started.",
            kept="Nothing was started.",
            advice="Set it to the folder in which files shall appear (HEADWATER_PEER__INTO), or receive one file with "
            "`headwater cast join NAME --into FOLDER`.",
            key="peer.into",
        )
    the.log_as_a_service(as_json=as_json)
    ending = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    with (
        Peer(config, the.kafka, into=config.into) as running,
        serving(the.settings, "peer", lambda: _health(running)),
        speaking(the.kafka, "peer", Stage.other, lambda: _health(running)),
    ):
        while not ending.wait(_LOOK_SECONDS) and running.failure is None:
            pass
    if running.failure is not None:
        raise running.failure


def _health(running: Peer) -> Health:
    from headwater.observe.http import Health

    facts = {"host": running.config.host, "rack": running.rack, "casts": [*map(_fact, running.casts())]}
    if running.failure is not None:
        return Health(False, "stopping", str(running.failure), facts)
    if running.trouble:
        return Health(False, "degraded", running.trouble, facts)
    return Health(True, "running" if running.ready else "starting", "", facts)


def _fact(status: object) -> dict[str, object]:
    from headwater.cli import output

    return dict(output.plain(status))
