"""``headwater cast join``: this host takes part in one cast, until it has the file."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson
from headwater.rules.errors import HeadwaterError, NotFound, Refused

if TYPE_CHECKING:
    from rich.status import Status

    from headwater.consumers.peer.peer import Peer
    from headwater.consumers.peer.status import CastStatus

_LOOK_SECONDS = 0.1
_NAMED = 12
"""So many missing chunks are named in an error; all of them are in its facts."""


def join(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The cast's name.")],
    into: Annotated[Path, typer.Option(help="The folder in which the file appears.")],
    as_json: AsJson = False,
) -> None:
    """Receive one cast's file, and hand it on meanwhile.

    Waits for the cast, if there is none of this name yet. Ends when the file is there and all hosts of this rack have
    it, or a minute (peer.seed_seconds) after it is there. A second run goes on with what is there.
    """
    from headwater.consumers.peer.peer import Peer

    the = frame.of(context)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Peer(the.settings.peer, the.kafka, into=into, only=name) as peer, _live(as_json=as_json) as line:
        status = _wait(peer, name, line)
    if as_json:
        output.print_json(status)
    else:
        output.say(output.console(), f"{status.path}: {output.size(status.size)}, as cast {status.epoch} of {name}.")


def _wait(peer: Peer, name: str, line: Status | None) -> CastStatus:
    """Until the file is here, and was served to the rack. Raises why it will not come."""
    installed_at: float | None = None
    while True:
        if peer.failure is not None:
            raise peer.failure
        newest = peer.newest(name)
        status = next((one for one in peer.casts() if newest is not None and one.epoch == newest.epoch), None)
        if status is None and newest is not None and peer.ready:
            _refuse_what_cannot_come(peer, name)
        if status is not None:
            if status.phase == "failed":
                raise _failed(status)
            if status.phase == "installed":
                installed_at = installed_at or time.monotonic()
                if status.served_out or time.monotonic() - installed_at > peer.config.seed_seconds:
                    return status
        if line is not None:
            line.update(_text(peer, name, status))
        time.sleep(_LOOK_SECONDS)


def _refuse_what_cannot_come(peer: Peer, name: str) -> None:
    """The newest cast of the name is one that this peer takes no part in."""
    newest = peer.newest(name)
    if newest is None or newest.epoch in {one.epoch for one in peer.casts()}:
        return
    if newest.ended or newest.expired(time.time_ns() // 1_000):
        happened = f"it was {newest.state}: {newest.reason}" if newest.ended else "it has expired"
        raise NotFound(
            f"{happened.rstrip('.')}.",
            asked=f"The file of cast {newest.epoch} of {name} was to be received.",
            kept="Nothing was written.",
            advice="Cast it again, or leave join waiting from before the cast begins.",
        )
    if peer.is_named_by(newest):
        return  # it begins in a moment
    raise Refused(
        f"it is for {', '.join(newest.targets)}, and this host is {peer.config.host}"
        + (f" in rack {peer.rack}." if peer.rack else ", without a rack."),
        asked=f"The file of cast {newest.epoch} of {name} was to be received.",
        kept="Nothing was written.",
        advice="Cast it to this host too, or set peer.host and peer.rack to what they should be.",
    )


def _failed(status: CastStatus) -> HeadwaterError:
    missing = ", ".join(map(str, status.missing[:_NAMED])) + (" …" if len(status.missing) > _NAMED else "")
    lacks = f" Of {status.chunks} chunks {status.chunks - status.had} are missing: {missing}." if missing else ""
    return HeadwaterError(
        f"{status.reason.rstrip('.')}.{lacks}",
        asked=f"The file of cast {status.epoch} of {status.name} was to be received as {status.path}.",
        kept="No file appeared under that name.",
        advice=f"`headwater cast report {status.name}` says how the others fared.",
        missing=status.missing,
        epoch=status.epoch,
    )


@contextmanager
def _live(*, as_json: bool) -> Iterator[Status | None]:
    console = output.console(errors=True)
    if as_json or not console.is_terminal:
        yield None
        return
    with console.status("") as line:
        yield line


def _text(peer: Peer, name: str, status: CastStatus | None) -> Text:
    trouble = f"  {peer.trouble}" if peer.trouble else ""
    if status is None:
        return Text(f"{name}: {'waiting for the cast' if peer.ready else 'reading the log'} …{trouble}")
    done = status.had / status.chunks if status.chunks else 1.0
    speed = f"{output.size(status.received_bytes / max(0.1, status.seconds))}/s"
    return Text(
        f"{name}: {status.phase}, {done:.0%} of {output.size(status.size)}, {speed} since it began, "
        f"{output.size(status.outside_bytes)} from outside the rack{trouble}"
    )
