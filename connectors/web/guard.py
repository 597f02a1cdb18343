"""Connections to addresses that were checked, and that end in time."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Any

import httpcore
from httpcore import NetworkBackend, NetworkStream

from headwater.rules.errors import BadUrl
from headwater.rules.public_address import Network, why_not_public


class Guard(NetworkBackend):
    """Opens the connection of one request. The name is resolved once, every address that it has is checked, and the
    connection goes to one of these: a name that answers differently a moment later (DNS rebinding) gains nothing.

    A lookup has the bound that resolv.conf gives it; all else ends at ``deadline``, a moment of the monotonic clock,
    however slowly the other side drips.
    """

    def __init__(self, allowed: Sequence[Network], connect_seconds: float, deadline: float) -> None:
        self._allowed = allowed
        self._connect_seconds = connect_seconds
        self._deadline = deadline
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002  the deadline is ours
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> NetworkStream:
        """Raises BadUrl where one of the host's addresses is not public, and httpcore's errors for all else."""
        failure: httpcore.NetworkError | httpcore.TimeoutException = httpcore.ConnectError("the name has no address")
        for address in self._checked(host, port):
            seconds = min(self._connect_seconds, left(self._deadline))
            try:
                stream = self._sockets.connect_tcp(address, port, seconds, local_address, socket_options)
                return _Timed(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def _checked(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise httpcore.ConnectError(f"the name {host} is not found: {error}") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        for address in addresses:
            if what := why_not_public(ip_address(address), self._allowed):
                raise BadUrl(f"{host} leads to {address}, which is {what}.", kept="Nothing was sent.", host=host)
        return addresses


class _Timed(NetworkStream):
    """A stream that ends at the deadline."""

    def __init__(self, stream: NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002  the deadline is ours
        return self._stream.read(max_bytes, left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._stream.write(buffer, left(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> NetworkStream:
        return _Timed(self._stream.start_tls(ssl_context, server_hostname, left(self._deadline)), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def left(deadline: float) -> float:
    """Seconds until the deadline. Raises httpcore.ReadTimeout when it is over."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise httpcore.ReadTimeout("it took too long")
    return seconds
