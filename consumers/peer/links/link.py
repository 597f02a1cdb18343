"""One open control link: whole frames out of what comes, and what could not be sent yet."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.links import frames
from headwater.consumers.peer.swarm.others import Who
from headwater.rules.errors import BadRecord

_HEAD = 5
_AT_ONCE = 65_536
UNSENT = 4 * wire.LARGEST_FRAME
"""A peer that takes nothing for so many bytes is not there."""


@dataclass(slots=True, eq=False)
class Link:
    """With ``who``, on a socket that does not block. ``heard``, ``spoke`` and ``used`` (for more than pings): when."""

    socket: socket.socket
    who: Who
    dialled: bool
    heard: float
    spoke: float
    used: float
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)

    def receive(self) -> bool:
        """Takes what has come. False where the link ended."""
        try:
            data = self.socket.recv(_AT_ONCE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.received += data
        return bool(data)

    def frames(self) -> Iterator[frames.Frame]:
        """The whole frames of what came. Raises BadRecord for what no peer of ours sends."""
        received = self.received
        while len(received) >= _HEAD:
            length = int.from_bytes(received[:4], "big")
            if length > wire.LARGEST_FRAME:
                raise BadRecord(f"a control frame of {length} bytes")
            if len(received) < _HEAD + length:
                return
            frame = frames.read(received[4], bytes(received[_HEAD : _HEAD + length]))
            del received[: _HEAD + length]
            yield frame

    def flush(self) -> bool:
        """Sends what it can. False where the link ended, or takes nothing."""
        try:
            del self.unsent[: self.socket.send(self.unsent)]
        except BlockingIOError:
            return len(self.unsent) <= UNSENT
        except OSError:
            return False
        return True
