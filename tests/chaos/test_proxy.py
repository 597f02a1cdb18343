"""The bad network: what each fault does to a connection, and what is read off the wire meanwhile."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator

import pytest
from chaos.proxy import HOST, Proxy
from chaos.traffic import HttpObserver, Request, Traffic

Eventually = Callable[..., object]


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socket.create_server((HOST, 0)) as chosen:
        port = chosen.getsockname()[1]
    with socketserver.ThreadingTCPServer((HOST, 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = Proxy(server.server_address[1], port)
        yield proxy
        proxy.close()
        server.shutdown()


@pytest.fixture
def connection(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection((HOST, proxy.port), timeout=5) as connection:
        assert said(connection, b"hello") == b"hello"
        yield connection


def said(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return connection.recv(100)


def test_drop_resets_what_is_open_and_takes_new_connections(proxy: Proxy, connection: socket.socket) -> None:
    proxy.drop()
    with pytest.raises(ConnectionResetError):
        connection.recv(1)
    with socket.create_connection((HOST, proxy.port), timeout=5) as another:
        assert said(another, b"again") == b"again"


def test_refuse_resets_new_connections_until_it_is_healed(proxy: Proxy) -> None:
    proxy.refuse()
    # The reset may come before or after the connection counts as made.
    with pytest.raises(ConnectionResetError), socket.create_connection((HOST, proxy.port), timeout=5) as refused:
        refused.recv(1)
    proxy.heal()
    with socket.create_connection((HOST, proxy.port), timeout=5) as another:
        assert said(another, b"again") == b"again"


def test_stall_holds_bytes_back_until_it_is_healed(proxy: Proxy, connection: socket.socket) -> None:
    proxy.stall()
    connection.settimeout(0.3)
    with pytest.raises(TimeoutError):
        said(connection, b"held")
    proxy.heal()
    connection.settimeout(5)
    assert connection.recv(100) == b"held"


def test_delay_lets_bytes_pass_later(proxy: Proxy, connection: socket.socket) -> None:
    proxy.delay(0.3)
    connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        said(connection, b"slow")
    connection.settimeout(5)
    assert connection.recv(100) == b"slow"


def test_half_close_ends_one_direction_only(proxy: Proxy, connection: socket.socket) -> None:
    proxy.half_close()
    assert connection.recv(1) == b""
    connection.sendall(b"still taken")


def observed(*exchanges: tuple[str, bytes]) -> list[Request]:
    times = iter(range(100))
    traffic = Traffic(lambda: float(next(times)))
    observer: HttpObserver = traffic.observer()
    for direction, data in exchanges:
        (observer.sent if direction == ">" else observer.answered)(data)
    return traffic.requests


def test_requests_on_one_connection_are_told_apart_without_reading_their_bodies() -> None:
    found = observed(
        (">", b"PUT /b/objects/aa/x.1 HTTP/1.1\r\nContent-Length: 40\r\nExpect: 100-continue\r\n\r\n"),
        ("<", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (">", b"GET /not/a/request HTTP/1.1\r\nits the body"),
        ("<", b"HTTP/1.1 200 OK\r\n\r\n"),
        (">", b"PUT /b/objects/aa/y.1?partNumber=3&uploadId=u%2F HT"),
        (">", b"TP/1.1\r\nContent-Length: 0\r\n\r\n"),
        ("<", b"HTTP/1.1 5"),
        ("<", b"03 Slow Down\r\n\r\n"),
    )
    assert [(one.method, one.key, one.part, one.upload_id, one.status) for one in found] == [
        ("PUT", "objects/aa/x.1", None, None, 200),
        ("PUT", "objects/aa/y.1", 3, "u/", 503),
    ]
    assert found[0].began < found[0].ended < found[1].began


def test_the_rest_of_a_refused_body_is_no_request_and_silence_is_no_success() -> None:
    found = observed(
        (">", b"PUT /b/objects/aa/x.1 HTTP/1.1\r\n\r\nbo"),
        ("<", b"HTTP/1.1 412 Precondition Failed\r\n\r\n"),
        (">", b"dy\r\nmore"),
        (">", b"HEAD /b/objects/aa/x.1 HTTP/1.1\r\n\r\n"),
    )
    assert [(one.method, one.status, one.succeeded) for one in found] == [("PUT", 412, False), ("HEAD", None, False)]
