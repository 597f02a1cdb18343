"""What peers say to each other over TCP: a handshake that proves the key, then requests for chunks, or control frames.

    dialler  ->  "HWC1" | kind u8 | incarnation u64 | length u8, host | nonce 32
    listener ->  the same of its own | mac(key, "listener" | both hellos)
    dialler  ->  mac(key, "dialler" | both hellos)

Both nonces are in both macs, so neither side can be answered with what was heard before. After it, on a data
connection, one request at a time:

    epoch u64 | chunk u32  ->  status u8 | length u32, then so many bytes

and on a control connection, in both directions, frames ``length u32 | type u8 | body``. All numbers are big-endian.
The bytes of a chunk are not authenticated one by one: they count when they have the hash that the manifest says.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from blake3 import blake3

from headwater.rules.errors import BadRecord, Refused, Unavailable

_MAGIC = b"HWC1"
_HEAD = struct.Struct(">4sBQB")
_NONCE = _MAC = 32
_REQUEST = struct.Struct(">QI")
_ANSWER = struct.Struct(">BI")
_FRAME = struct.Struct(">IB")
_KEY_CONTEXT = "headwater 2026-11-30 cast peers"
LARGEST_FRAME = 1024 * 1024
"""Bytes of a control frame's body: four times a HAVE of every chunk that a cast may have."""


Shutdown: TypeAlias = Callable[[], None]
"""Ends, from another thread, whatever waits on a connection."""


class Kind(IntEnum):
    control = 1
    data = 2


class Status(IntEnum):
    ok = 0
    busy = 1
    not_here = 2
    refused = 3


@dataclass(frozen=True, slots=True)
class Identity:
    """A peer as it names itself: its host, and which start of it this is."""

    host: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Connection:
    """An authenticated connection: who is at its other end. Its socket blocks, without a time limit."""

    socket: socket.socket
    kind: Kind
    peer: Identity

    def shutdown(self) -> None:
        """Ends what waits on it, from any thread. Who waits closes the socket."""
        shut(self.socket)


def shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def key_from(secret: str) -> bytes:
    """The 32 bytes of ``peer.key`` that the macs are made with."""
    return blake3(secret.encode(), derive_key_context=_KEY_CONTEXT).digest()


def dial(
    address: str, kind: Kind, own: Identity, key: bytes, seconds: float, uses: Callable[[Shutdown], None]
) -> Connection:
    """Connects to ``host:port`` and proves both sides within ``seconds``.

    ``uses`` is given, before anything waits, what another thread may end the wait with. Raises Unavailable where nobody
    answers in time, Refused where the other side does not have the key.
    """
    deadline = time.monotonic() + seconds
    connected, place = _socket_for(address)
    try:
        uses(lambda: shut(connected))
        connected.settimeout(seconds)
        connected.connect(place)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = _hello(kind, own)
        connected.sendall(hello)
        theirs, peer, answered = _read_hello(connected, deadline)
        if answered is not kind or not hmac.compare_digest(
            _read(connected, _MAC, deadline), _mac(key, b"listener", hello, theirs)
        ):
            raise Refused(f"who answers at {address} does not have this fleet's key.", kept="Nothing was exchanged.")
        connected.sendall(_mac(key, b"dialler", hello, theirs))
        connected.settimeout(None)
    except OSError as error:
        connected.close()
        raise Unavailable(f"{address} does not answer: {error}.") from error
    except BaseException:
        connected.close()
        raise
    return Connection(connected, kind, peer)


def _socket_for(address: str) -> tuple[socket.socket, tuple[Any, ...]]:
    host, _, port = address.rpartition(":")
    try:
        family, kind, _, _, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        return socket.socket(family, kind), place
    except OSError as error:
        raise Unavailable(f"{address} is no address that answers: {error}.") from error


def accept(accepted: socket.socket, own: Identity, key: bytes, seconds: float) -> Connection:
    """The listener's half, within ``seconds``. Raises Unavailable or Refused; the socket is then still the caller's."""
    deadline = time.monotonic() + seconds
    try:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        theirs, peer, kind = _read_hello(accepted, deadline)
        hello = _hello(kind, own)
        accepted.sendall(hello + _mac(key, b"listener", theirs, hello))
        if not hmac.compare_digest(_read(accepted, _MAC, deadline), _mac(key, b"dialler", theirs, hello)):
            raise Refused(f"{peer.host!r} does not have this fleet's key.", kept="Nothing was served or accepted.")
        accepted.settimeout(None)
    except OSError as error:
        raise Unavailable(f"a connection ended in its handshake: {error}.") from error
    return Connection(accepted, kind, peer)


def ask(connection: socket.socket, epoch: int, chunk: int) -> None:
    connection.sendall(_REQUEST.pack(epoch, chunk))


def read_request(connection: socket.socket) -> tuple[int, int] | None:
    """Epoch and chunk of the next request; None where the other side closed between two. Raises OSError."""
    first = connection.recv(_REQUEST.size)
    if not first:
        return None
    rest = receive(connection, _REQUEST.size - len(first)) if len(first) < _REQUEST.size else b""
    epoch, chunk = _REQUEST.unpack(first + rest)
    return epoch, chunk


def answer(connection: socket.socket, status: Status, length: int = 0, *, more: bool = False) -> None:
    """``more``: the bytes follow, and the kernel may send them with it."""
    connection.sendall(_ANSWER.pack(status, length), socket.MSG_MORE if more else 0)


def read_answer(connection: socket.socket) -> tuple[Status, int]:
    """Raises OSError where the connection ends, BadRecord where it says what no peer says."""
    status, length = _ANSWER.unpack(receive(connection, _ANSWER.size))
    if status > max(Status):
        raise BadRecord(f"status {status} of an answer")
    return Status(status), length


def frame(kind: int, body: bytes) -> bytes:
    """A control frame. Its type is the caller's affair."""
    return _FRAME.pack(len(body), kind) + body


def read_frame(connection: socket.socket) -> tuple[int, bytes]:
    """Type and body of the next control frame. Raises OSError where the connection ends, BadRecord for a huge one."""
    length, kind = _FRAME.unpack(receive(connection, _FRAME.size))
    if length > LARGEST_FRAME:
        raise BadRecord(f"a control frame of {length} bytes")
    return kind, receive(connection, length)


def receive(connection: socket.socket, length: int) -> bytes:
    """Exactly so many bytes. Raises OSError where the connection ends before."""
    received = bytearray(length)
    view = memoryview(received)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionResetError("closed by the other side")
        view = view[count:]
    return bytes(received)


def _hello(kind: Kind, own: Identity) -> bytes:
    host = own.host.encode()
    return _HEAD.pack(_MAGIC, kind, own.incarnation, len(host)) + host + secrets.token_bytes(_NONCE)


def _read_hello(connection: socket.socket, deadline: float) -> tuple[bytes, Identity, Kind]:
    head = _read(connection, _HEAD.size, deadline)
    magic, kind, incarnation, length = _HEAD.unpack(head)
    if magic != _MAGIC or kind not in (Kind.control, Kind.data):
        raise Refused("what came is no handshake of a headwater peer.", kept="Nothing was exchanged.")
    rest = _read(connection, length + _NONCE, deadline)
    host = rest[:length].decode(errors="replace")
    return head + rest, Identity(host, incarnation), Kind(kind)


def _read(connection: socket.socket, length: int, deadline: float) -> bytes:
    """Like ``receive``, but all of it before ``deadline``: a byte now and then keeps nobody waiting."""
    received = b""
    while len(received) < length:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the handshake took too long")
        connection.settimeout(left)
        piece = connection.recv(length - len(received))
        if not piece:
            raise ConnectionResetError("closed by the other side")
        received += piece
    return received


def _mac(key: bytes, side: bytes, dialler: bytes, listener: bytes) -> bytes:
    return blake3(side + dialler + listener, key=key).digest()
