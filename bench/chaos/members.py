"""Our own processes on those servers: one agent, two uploaders of each kind, the verifiers, a committer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.stack.addresses import Addresses

SITE, SOURCE, DATASET, PREFIX = "chaos", "film", "chaos", "chaos."

_SETTINGS = f"""
site = "{SITE}"
dataset = "{DATASET}"
log_level = "info"
[kafka]
prefix = "{PREFIX}"
[commit]
every_seconds = 3
[sources.{SOURCE}]
root = "film"
settle_seconds = 0.2
weak_settle_seconds = 0.5
delete_hold_seconds = 0.5
deletes_unasked = 1000000
busy_seconds = 20
retry_seconds = 2
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended by itself, between ``began`` and ``ended`` (seconds since 1970): its exit code, and the last
    lines that it wrote."""

    name: str
    code: int
    words: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    began: float
    log_begins: int
    """Bytes of the log that are its predecessors'."""


class Members:
    """Started and started again by the same command line, as a service manager would."""

    ARGUMENTS = {  # noqa: RUF012
        "agent": ("sync", "film", "--source", SOURCE),
        "upload-files": ("run", "upload-files"),
        "upload-files.2": ("run", "upload-files"),
        "upload-parts": ("run", "upload-parts"),
        "upload-parts.2": ("run", "upload-parts"),
        "verify-objects": ("run", "verify-objects"),
        "verify-large": ("run", "verify-large"),
        "commit": ("run", "commit"),
    }
    NAMES = tuple(ARGUMENTS)

    def __init__(self, folder: Path, addresses: Addresses) -> None:
        self.folder = folder
        self.root = folder / "film"
        self.root.mkdir(parents=True)
        (folder / "headwater.toml").write_text(_SETTINGS)
        own = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        self._environment = own | addresses.environment()
        self._running: dict[str, _Running] = {}
        self._killed: set[int] = set()
        self.ended: list[Ended] = []
        """What ended although nobody had killed it."""

    def prepare(self) -> None:
        """The catalog's tables and the topics, by the command that a user would run; its processes are ours."""
        self.run("up", "--servers")

    def run(self, *words: str, code: int | None = 0, timeout: float = 120) -> str:
        done = subprocess.run(
            [*self._command("state"), *words],
            cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip
        if code is not None and done.returncode != code:
            raise RuntimeError(f"headwater {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def start_all(self) -> None:
        """Start what does not run, and note what ended by itself."""
        for name in self.NAMES:
            self.start(name)

    def start(self, name: str, state: str = "state") -> None:
        before = self._running.get(name)
        if before is not None:
            if before.process.poll() is None:
                return
            self._note_end(name, before)
        with self._log(name).open("ab") as log:
            process = subprocess.Popen(
                [*self._command(state), *self._arguments(name)],
                cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
            self._running[name] = _Running(process, time.time(), log.tell())

    def _note_end(self, name: str, running: _Running) -> None:
        if running.process.pid in self._killed:
            return
        log = self._log(name)
        said = log.read_bytes()[running.log_begins :].decode(errors="replace").splitlines()
        words = " | ".join(said[-6:])[-1500:]
        self.ended.append(Ended(name, running.process.returncode, words, running.began, log.stat().st_mtime))

    def kill(self, name: str) -> None:
        running = self._running.get(name)
        if running is not None and running.process.poll() is None:
            self._killed.add(running.process.pid)
            running.process.kill()
            running.process.wait(10)

    def pause(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def second_agent(self) -> int:
        """Another agent of the same source, with an index of its own: how it ended."""
        done = subprocess.run(
            [*self._command("second"), "sync", "film", "--source", SOURCE],
            cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=60, check=False,
        )  # fmt: skip
        self._log("second-agent").write_bytes(done.stdout + done.stderr)
        return done.returncode

    def kill_all(self) -> None:
        for name in self._running:
            self.kill(name)

    def agent_facts(self) -> dict[str, Any]:
        """What the agent says of itself; empty where it does not answer."""
        process = self._running["agent"].process
        try:
            url = (self.folder / "state" / "run" / f"agent-{SOURCE}.{process.pid}.http").read_text().strip()
            with urllib.request.urlopen(f"{url}/healthz", timeout=2) as answer:
                return dict(json.load(answer)["facts"])
        except (OSError, ValueError):
            return {}

    def tracebacks(self) -> list[str]:
        """Logs in which a traceback stands."""
        return [
            log.name for log in self.folder.glob("*.log") if b"Traceback (most recent call last)" in log.read_bytes()
        ]

    def _command(self, state: str) -> list[str]:
        return [sys.executable, "-m", "headwater.cli", "--set", f"state_folder={self.folder / state}"]

    def _arguments(self, name: str) -> tuple[str, ...]:
        return self.ARGUMENTS.get(name) or self.ARGUMENTS[name.partition(".")[0]]

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _signal(self, name: str, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._running[name].process.send_signal(number)


def wait_until(condition: Any, within_seconds: float) -> bool:
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
