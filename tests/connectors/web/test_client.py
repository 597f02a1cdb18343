from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headwater.connectors.web.client import Web
from headwater.connectors.web.config import WebConfig
from headwater.rules.errors import BadUrl, Refused, Unavailable

LOCAL = WebConfig(allow_http=True, allow_networks=("127.0.0.0/8",), connect_seconds=2, answer_seconds=60)
HURRIED = WebConfig(allow_http=True, allow_networks=("127.0.0.0/8",), answer_seconds=0.5, download_seconds=0.5)
HOST = "hooks.headwater.example"


class Receiver(BaseHTTPRequestHandler):
    """What a path asks for, as /status/410."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, dict[str, str], bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        _, what, value = [*self.path.partition("?")[0].split("/"), ""][:3]
        {"status": self._status, "redirect": self._redirect, "bytes": self._bytes, "cut": self._cut}[what](value)

    do_GET = do_POST

    def _status(self, value: str) -> None:
        self.send_response(int(value))
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def _redirect(self, _: str) -> None:
        self.send_response(302)
        self.send_header("Location", "/status/200")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _bytes(self, value: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * int(value))
        self.close_connection = True

    def _cut(self, value: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(2 * int(value)))
        self.end_headers()
        self.wfile.write(b"x" * int(value))
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[tuple[str, dict[str, str], bytes]]]]:
    handler = type("One", (Receiver,), {"seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients here hang up as they like
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", handler.seen  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[tuple[str, dict[str, str], bytes]]]]:
    with serving() as running:
        yield running


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Addresses by name, as the resolver is made to answer; each lookup is counted below ``lookups``."""
    known: dict[str, list[str]] = {"lookups": []}

    def getaddrinfo(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        known["lookups"].append(host)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in known[host]]

    create = socket.create_connection

    def without_lookups(address: tuple[str, int], *rest: Any, **more: Any) -> socket.socket:
        socket.inet_aton(address[0])  # raises for a name: it would be looked up again
        monkeypatch.undo()
        return create(address, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "create_connection", without_lookups)
    return known


def test_a_post_arrives_as_it_was_given_and_the_answer_comes_back(receiver: Any) -> None:
    where, seen = receiver
    answer = Web(LOCAL).post(f"http://{where}/status/200?a=b", b'{"a":1}', {"content-type": "application/json"})
    assert (answer.status, answer.headers["retry-after"], answer.body) == (200, "7", b"ok")
    path, headers, body = seen[0]
    assert (path, body) == ("/status/200?a=b", b'{"a":1}')
    assert headers["host"] == where
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("headwater/")


def test_a_redirect_is_an_answer_and_is_not_followed(receiver: Any) -> None:
    where, seen = receiver
    assert Web(LOCAL).post(f"http://{where}/redirect", b"", {}).status == 302
    assert len(seen) == 1


def test_proxies_of_the_environment_are_not_asked(receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert Web(LOCAL).post(f"http://{receiver[0]}/status/204", b"", {}).status == 204


def test_a_long_answer_is_read_as_far_as_people_need(receiver: Any) -> None:
    assert len(Web(LOCAL).post(f"http://{receiver[0]}/bytes/50000000", b"", {}).body) == 2_048


def test_a_name_that_leads_inside_is_refused_when_it_is_called(names: dict[str, list[str]]) -> None:
    names[HOST] = ["10.0.0.7"]
    with pytest.raises(BadUrl, match=f"{HOST} leads to 10.0.0.7, which is private"):
        Web(WebConfig()).post(f"https://{HOST}/", b"", {})


def test_one_inner_address_among_public_ones_is_enough_to_refuse(names: dict[str, list[str]]) -> None:
    names[HOST] = ["93.184.216.34", "127.0.0.1"]
    with pytest.raises(BadUrl, match=r"leads to 127\.0\.0\.1, which is loopback"):
        Web(WebConfig()).post(f"https://{HOST}/", b"", {})


def test_the_address_that_was_checked_is_the_one_that_is_called(receiver: Any, names: dict[str, list[str]]) -> None:
    """The name is looked up once: a resolver that answers otherwise a moment later is not asked."""
    where, seen = receiver
    names[HOST] = ["127.0.0.1"]
    assert Web(LOCAL).post(f"http://{where.replace('127.0.0.1', HOST)}/status/200", b"", {}).status == 200
    assert names["lookups"] == [HOST]
    assert seen[0][1]["host"] == where.replace("127.0.0.1", HOST)


def test_a_name_that_nobody_knows_is_no_answer(names: dict[str, list[str]]) -> None:
    with pytest.raises(Unavailable, match="is not found"):
        Web(LOCAL).post(f"https://{HOST}/", b"", {})
    assert names["lookups"] == [HOST]


def test_a_port_where_nobody_listens_is_no_answer() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="gave no answer"):
            Web(LOCAL).post(f"http://127.0.0.1:{free.getsockname()[1]}/", b"", {})


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"])
def test_who_drips_or_hangs_is_left_in_time(said: bytes) -> None:
    """A byte each 50 ms, for ever: each read would come in time, the answer does not."""
    leaving = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            try:
                connection.sendall(said)
                while not leaving.wait(0.05):
                    connection.sendall(b"a")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=[listening])
        thread.start()
        try:
            began = time.monotonic()
            with pytest.raises(Unavailable, match=r"took too long|timed out"):
                Web(HURRIED).post(f"http://127.0.0.1:{listening.getsockname()[1]}/", b"", {})
            assert time.monotonic() - began < 30, "the drip would go on for ever"
        finally:
            leaving.set()
            thread.join()


def test_an_answer_that_is_no_http_is_no_answer() -> None:
    def speak(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"SSH-2.0-OpenSSH_10.0\r\n" * 10)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=speak, args=[listening])
        thread.start()
        with pytest.raises(Unavailable, match="gave no answer"):
            Web(LOCAL).post(f"http://127.0.0.1:{listening.getsockname()[1]}/", b"", {})
        thread.join()


def test_tls_proves_the_name_at_the_pinned_address(
    names: dict[str, list[str]], certificate: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    names[HOST] = ["127.0.0.1"]
    with serving(_server_side(certificate(HOST), monkeypatch)) as (where, seen):
        answer = Web(LOCAL).post(f"https://{where.replace('127.0.0.1', HOST)}/status/200", b"secret", {})
    assert (answer.status, seen[0][2]) == (200, b"secret")


def test_a_certificate_of_another_name_is_refused(
    names: dict[str, list[str]], certificate: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    names[HOST] = ["127.0.0.1"]
    with (
        serving(_server_side(certificate("elsewhere.example"), monkeypatch)) as (where, seen),
        pytest.raises(Unavailable, match="certificate"),
    ):
        Web(LOCAL).post(f"https://{where.replace('127.0.0.1', HOST)}/status/200", b"secret", {})
    assert not seen


def test_a_download_is_written_whole(receiver: Any, tmp_path: Path) -> None:
    assert Web(LOCAL).download(f"http://{receiver[0]}/bytes/300000", tmp_path / "input", most_bytes=300_000) == 300_000
    assert (tmp_path / "input").stat().st_size == 300_000


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("bytes/300001", Refused),
        ("status/404", Refused),
        ("redirect", Refused),
        ("status/503", Unavailable),
        ("cut/1000", Unavailable),
    ],
)
def test_a_download_that_fails_leaves_no_file(receiver: Any, tmp_path: Path, path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Web(LOCAL).download(f"http://{receiver[0]}/{path}", tmp_path / "input", most_bytes=300_000)
    assert not (tmp_path / "input").exists()


@pytest.fixture
def certificate(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a certificate that signs itself, with its key, in one PEM file."""

    def make(name: str) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        signed = (
            x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        file = tmp_path / f"{name}.pem"
        file.write_bytes(
            signed.public_bytes(serialization.Encoding.PEM) + key.private_bytes(serialization.Encoding.PEM, *form)
        )
        return file

    return make


def _server_side(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """The server's context; clients of this process trust the certificate as one of the system's."""
    trusted = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: trusted(cafile=certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
