"""A real S3 server behind a server or a network that falls short: of one thing, everything else is passed on."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from headwater.connectors.s3.config import S3Config

_ITS_OWN = {"authorization", "connection", "content-length", "expect", "host", "transfer-encoding", "x-amz-date"}


class _Signature(S3SigV4Auth):
    """Signs the payload's hash that the client named, right or wrong: the server behind judges it."""

    def __init__(self, config: S3Config, payload: str) -> None:
        super().__init__(Credentials(config.access_key_id, config.secret_access_key), "s3", config.region)
        self._payload = payload

    def payload(self, request: AWSRequest) -> str:  # noqa: ARG002
        return self._payload


class LesserServer(ThreadingHTTPServer):
    """As old or small servers do, it signs in (it knows the secret) and reads of a request what it understands."""

    daemon_threads = True

    def __init__(self, behind: S3Config, lacks: frozenset[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.lacks = behind, lacks
        self.etags: dict[str, str] = {}
        """Of the parts that were stored, by upload."""


class _Handler(BaseHTTPRequestHandler):
    server: LesserServer
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() not in _ITS_OWN}
        refusal = self._refusal(headers)
        if refusal:
            return self._answer(refusal, {}, b"<Error><Code>NotImplemented</Code></Error>")
        body = self._understood(headers, body)
        behind = self.server.behind
        request = AWSRequest(self.command, f"{behind.endpoint}{self.path}", headers, body)
        _Signature(behind, headers.get("x-amz-content-sha256") or sha256(body).hexdigest()).add_auth(request)
        connection = http.client.HTTPConnection(urlsplit(behind.endpoint).netloc, timeout=20)
        connection.request(self.command, self.path, body, dict(request.headers.items()))
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        if "partNumber=" in self.path and reply.status == 200:
            self.server.etags[_upload_of(self.path)] = reply.headers["ETag"]
        return self._answer(reply.status, dict(reply.headers.items()), content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while length := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(length))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _refusal(self, headers: dict[str, str]) -> int:
        lacks, key = self.server.lacks, unquote(urlsplit(self.path).path)
        if "checksum headers" in lacks and "x-amz-checksum-sha256" in headers:
            return 501
        too_long = "long keys" in lacks and len(key) > 900
        unprintable = "control characters" in lacks and not key.isprintable()
        return 400 if too_long or unprintable else 0

    def _understood(self, headers: dict[str, str], body: bytes) -> bytes:
        """The headers and the body as this server takes them."""
        lacks = self.server.lacks
        unknown = {
            "conditional create": "if-none-match",
            "SHA-256": "x-amz-checksum-sha256",
            "kept SHA-256": "x-amz-checksum-mode",
            "Content-MD5": "content-md5",
        }
        for capability, name in unknown.items():
            if capability in lacks:
                headers.pop(name, None)
        if "SHA-256" in lacks:
            headers.pop("x-amz-sdk-checksum-algorithm", None)
        if "chunks" in lacks and headers.get("content-encoding") == "aws-chunked":
            for name in ("content-encoding", "x-amz-decoded-content-length", "x-amz-trailer", "x-amz-content-sha256"):
                headers.pop(name, None)
        if "signed hash" in lacks and len(headers.get("x-amz-content-sha256", "")) == 64:
            headers["x-amz-content-sha256"] = sha256(body).hexdigest()
        if "ETags" in lacks and self.command == "POST" and b"<CompleteMultipartUpload" in body:
            etag = self.server.etags[_upload_of(self.path)].encode()
            body = re.sub(rb"<ETag>.*?</ETag>", b"<ETag>" + etag + b"</ETag>", body)
            headers["x-amz-content-sha256"] = sha256(body).hexdigest()
        return body

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _upload_of(path: str) -> str:
    found = re.search(r"uploadId=([^&]+)", path)
    assert found, path
    return found[1]


@pytest.fixture
def lesser(bucket: str) -> Iterator[Callable[..., S3Config]]:
    """The bucket through a server that lacks the named capabilities."""
    started: list[LesserServer] = []

    def start(*lacks: str) -> S3Config:
        behind = S3Config.from_url(bucket)
        server = LesserServer(behind, frozenset(lacks))
        started.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return replace(behind, endpoint=f"http://127.0.0.1:{server.server_address[1]}", attempts=1)

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


class Flipper:
    """A TCP pass-through that flips one byte of a marked body, as a broken network card may."""

    MARK = b"flip this: "

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            threading.Thread(target=self._carry, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, False), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, flip: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                target.sendall(data.replace(self.MARK + b"a", self.MARK + b"b") if flip else data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if not flip:
            source.close()
            target.close()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def flipped(bucket: str) -> Iterator[S3Config]:
    """The bucket through a network that flips one byte of a body that begins with ``flip this: a``."""
    address = urlsplit(bucket)
    flipper = Flipper((address.hostname or "", address.port or 0))
    yield replace(S3Config.from_url(bucket), endpoint=f"http://127.0.0.1:{flipper.port}", attempts=1)
    flipper.close()
