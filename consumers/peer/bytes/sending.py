"""One chunk from a file into a socket, without passing through this process."""

from __future__ import annotations

import os
import socket
import struct
import time

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.limits import Limits
from headwater.consumers.peer.bytes.store import ChunkStore
from headwater.consumers.peer.bytes.wire import Status
from headwater.consumers.peer.config import PeerConfig
from headwater.rules.errors import Torn

HELD_BACK = 64 * 1024
"""The end of a chunk, sent only after another look at the source: of one that changed nobody gets a whole chunk."""
SLOWEST = 16 * 1024
"""Bytes a second. Who reads less, over the time of a stall, gives the slot to another."""


def bound(connection: socket.socket, receive_seconds: float, send_seconds: float) -> None:
    """No call on this connection waits for ever: not for what the other side says, and not until it takes something."""
    for option, seconds in ((socket.SO_RCVTIMEO, receive_seconds), (socket.SO_SNDTIMEO, send_seconds)):
        whole = int(seconds)
        connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", whole, int((seconds - whole) * 1e6)))


class Upload:
    """``sent`` says how many bytes went; ``begun``, that the answer went before them."""

    def __init__(self, connection: socket.socket, store: ChunkStore, limits: Limits, config: PeerConfig) -> None:
        self.sent = 0
        self.begun = False
        self._connection = connection
        self._store = store
        self._limits = limits
        self._stall_seconds = config.stall_seconds

    def send(self, epoch: int, chunk: int) -> None:
        """The answer, and the bytes after it. Raises NotFound before it, Torn before or after it, OSError."""
        file, start, length = self._store.serve(chunk)
        try:
            os.posix_fadvise(file, start, length, os.POSIX_FADV_WILLNEED)
            self.begun = True
            wire.answer(self._connection, Status.ok, length, more=True)
            self._send(file, start, max(0, length - HELD_BACK), epoch)
            self._store.unchanged()
            self._send(file, start + self.sent, length - self.sent, epoch)
        finally:
            os.close(file)

    def _send(self, file: int, offset: int, length: int, epoch: int) -> None:
        """In pieces: the kernel takes no more than 0x7ffff000 bytes at once, and often less than it is asked for."""
        end, waited, began = offset + length, 0.0, time.monotonic()
        before = self.sent
        while offset < end:
            piece = min(self._limits.piece(epoch), end - offset)
            waited += self._limits.wait(epoch, piece)
            count = os.sendfile(self._connection.fileno(), file, offset, piece)
            if count == 0:
                raise Torn("the file became shorter while it was served.")
            offset += count
            self.sent += count
            busy = time.monotonic() - began - waited
            if busy > self._stall_seconds and self.sent - before < busy * SLOWEST:
                raise TimeoutError("the reader takes too little")
