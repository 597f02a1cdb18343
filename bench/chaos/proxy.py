"""A network path that can be made bad: a TCP proxy on the loopback that drops, delays, stalls and half-closes."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

_CHUNK_BYTES = 256 * 1024
HOST = "127.0.0.1"


class Observer(Protocol):
    """Sees the bytes of one connection in both directions, in the proxy's thread."""

    def sent(self, data: bytes) -> None: ...

    def answered(self, data: bytes) -> None: ...


class Proxy:
    """``port``, at the address ``host``, leads to ``server_port``. The faults may be called from any thread and hold
    until ``heal``."""

    def __init__(
        self, server_port: int, port: int, observer: Callable[[], Observer] | None = None, host: str = HOST
    ) -> None:
        self.server_port = server_port
        self.port = port
        self._observer = observer
        self._delay_seconds = 0.0
        self._refuses = False
        self._open: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        listener = socket.create_server((host, port), backlog=256)
        self._thread = threading.Thread(target=self._serve, args=[listener], name=f"proxy-{port}", daemon=True)
        self._thread.start()

    def drop(self) -> None:
        """Every connection is reset; new ones are accepted."""
        self._call(lambda: self._each(_Connection.abort))

    def refuse(self) -> None:
        """Every connection is reset, new ones as soon as they are accepted."""
        self._refuses = True
        self.drop()

    def delay(self, seconds: float) -> None:
        """Every chunk of bytes waits this long, in both directions."""
        self._delay_seconds = seconds

    def stall(self) -> None:
        """Nothing passes in either direction; connections stay open."""
        self._call(self._flowing.clear)

    def half_close(self) -> None:
        """The clients of the open connections hear the end of the stream; what they send still arrives."""
        self._call(lambda: self._each(_Connection.half_close))

    def heal(self) -> None:
        self._refuses, self._delay_seconds = False, 0.0
        self._call(self._flowing.set)

    def close(self) -> None:
        self.heal()
        self.refuse()
        self._call(self._loop.stop)
        self._thread.join(10)

    def _each(self, action: Callable[[_Connection], None]) -> None:
        for connection in list(self._open):
            action(connection)

    def _call(self, action: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(action)

    def _serve(self, listener: socket.socket) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._carry, sock=listener, limit=_CHUNK_BYTES))
        self._loop.run_forever()
        server.close()
        if under_way := asyncio.all_tasks(self._loop):
            self._loop.run_until_complete(asyncio.wait(under_way, timeout=5))
        self._loop.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            _reset(writer)
            return
        try:
            from_server, to_server = await asyncio.open_connection(HOST, self.server_port, limit=_CHUNK_BYTES)
        except OSError:
            _reset(writer)
            return
        connection = _Connection(writer, to_server)
        self._open.add(connection)
        observer = self._observer() if self._observer else None
        try:
            await asyncio.gather(
                self._pump(reader, to_server, observer.sent if observer else None),
                self._pump(from_server, writer, observer.answered if observer else None),
            )
        except OSError:  # one side was reset: so is the other
            connection.abort()
        finally:
            self._open.discard(connection)
            connection.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, observe: Callable[[bytes], None] | None
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            if observe is not None:
                observe(data)
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            await self._flowing.wait()
            if not writer.is_closing():
                with suppress(RuntimeError):  # half-closed: what comes after the end of the stream is lost
                    writer.write(data)
                    await writer.drain()
        if writer.can_write_eof() and not writer.is_closing():
            with suppress(OSError):
                writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """A reset, not an end of the stream: nothing lingers."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class _Connection:
    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._client = client
        self._server = server

    def abort(self) -> None:
        for side in (self._client, self._server):
            _reset(side)

    def close(self) -> None:
        self._client.close()
        self._server.close()

    def half_close(self) -> None:
        if not self._client.is_closing():
            with suppress(OSError):
                self._client.write_eof()
