"""One of each back end, ready to run, and a course that notes what they tell: a real server, and real programs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from headwater.connectors.models.backends import build
from headwater.connectors.models.protocol import Model, Wish, Work

SIZE, SECONDS = "64x64", 2
CAPABILITIES = {
    "sizes": [SIZE],
    "max_seconds": 8,
    "gpu_seconds_per_second": {SIZE: 1.0},
    "input": "optional",
    "parameters": {"type": "object"},
}


@dataclass
class Notes:
    """A course. ``wishes`` gives what is wished of a work, once the batch is at the step that is its key."""

    wishes: dict[int, Wish] = field(default_factory=dict)
    steps: list[tuple[int, int]] = field(default_factory=list)
    saves: list[tuple[str, int, Path]] = field(default_factory=list)

    def step(self, step: int, steps: int) -> None:
        self.steps.append((step, steps))

    def wish(self, _work: Work) -> Wish:
        reached = max((step for step, _ in self.steps), default=-1)
        return max(
            (wish for step, wish in self.wishes.items() if reached >= step),
            key=list(Wish).index,
            default=Wish.go_on,
        )

    def saved(self, work: Work, step: int, path: Path) -> None:
        self.saves.append((work.job, step, path))


@pytest.fixture
def notes() -> type[Notes]:
    return Notes


@pytest.fixture
def work(tmp_path: Path) -> Callable[..., Work]:
    """A work with a folder of its own."""

    def made(job: str = "video_1", epoch: int = 1, **changes: Any) -> Work:
        folder = tmp_path / f"{job}-{epoch}-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        asked = {"prompt": "a red fox", "seconds": SECONDS, "size": SIZE, "folder": folder}
        return Work(job=job, epoch=epoch, **{**asked, **changes})

    return made


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A true video of that size and length, which no code of ours made."""
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with av.open(str(path), "w") as movie:
        stream = movie.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for number in range(10 * SECONDS):
            picture = np.full((64, 64, 3), number * 10, dtype=np.uint8)
            movie.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        movie.mux(stream.encode(None))
    return path


@dataclass
class Server:
    """A video server in the shape of vLLM-Omni's. ``answer`` is what a POST gets: status, type, body."""

    url: str
    answer: tuple[int, str, bytes]
    healthy: bool = True
    delay_seconds: float = 0.0
    forms: list[dict[str, bytes]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    asked_for_health: int = 0
    hang_ups: int = 0
    cut: bool = False


@pytest.fixture
def server(clip: Path) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.asked_for_health += 1
            self._send(200 if asked.healthy and self.path == "/health" else 503, "text/plain", b"")

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            form = message_from_bytes(f"Content-Type: {self.headers['Content-Type']}\n\n".encode() + body)
            asked.headers.append(dict(self.headers))
            asked.forms.append(
                {
                    str(part.get_param("name", header="content-disposition")): bytes(part.get_payload(decode=True))
                    for part in form.get_payload()
                }
            )
            if self.path != "/v1/videos/sync":
                self._send(404, "application/json", b"{}")
                return
            deadline = time.monotonic() + asked.delay_seconds
            self.connection.settimeout(0.02)
            while time.monotonic() < deadline:
                try:
                    if not self.connection.recv(1):
                        asked.hang_ups += 1
                        self.close_connection = True
                        return
                except TimeoutError:
                    continue
            self.connection.settimeout(None)
            self._send(*asked.answer)

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if asked.cut and body:
                self.wfile.write(body[: len(body) // 2])
                self.close_connection = True
            else:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    listening.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients hang up: that is tested
    asked = Server(f"http://127.0.0.1:{listening.server_port}", (200, "video/mp4", clip.read_bytes()))
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield asked
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.fixture
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """A Python program with this text, as a command without arguments."""

    def made(text: str) -> list[str]:
        path = tmp_path_factory.mktemp("program") / "program.py"
        path.write_text(f"import json, os, signal, subprocess, sys, time\n{text}\n")
        return [sys.executable, "-I", "-S", str(path)]

    return made


@dataclass(frozen=True)
class Case:
    """A back end, and how to ask it for a work that takes long enough to be stopped."""

    kind: str
    model: Model
    size: str
    seconds: int
    container: str
    slow: dict[str, Any]


_GENERATE = """
asked = json.load(sys.stdin)
print("step 1/2", flush=True)
time.sleep(float(asked["parameters"].get("seconds", 0)))
open(asked["output"], "wb").write(open(sys.argv[1], "rb").read())
print("step 2/2")
"""


@pytest.fixture(params=["testcard", "http", "command", "noop"])
def case(request: pytest.FixtureRequest, server: Server, program: Callable[[str], list[str]], clip: Path) -> Case:
    if request.param == "testcard":
        options: dict[str, Any] = {"faults": True}
        return Case("testcard", build("testcard", options), SIZE, SECONDS, "mp4", {"step_seconds": 10})
    if request.param == "http":
        model = build("http", {"url": server.url, "capabilities": CAPABILITIES})
        return Case("http", model, SIZE, SECONDS, "mp4", {})
    if request.param == "command":
        model = build("command", {"command": [*program(_GENERATE), str(clip)], "capabilities": CAPABILITIES})
        return Case("command", model, SIZE, SECONDS, "mp4", {"seconds": 100})
    return Case("noop", build("noop", {}), "16x16", 1, "bytes", {"seconds": 100})


@pytest.fixture
def capabilities() -> dict[str, Any]:
    return dict(CAPABILITIES)
