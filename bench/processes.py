"""Processes of ours under a benchmark that harms them: started and started again as a service manager would."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


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


class Processes:
    """``arguments`` by name: what follows the ``headwater`` command. ``own``: what one of them finds in its environment
    beside the others' (by its name, too). All work below ``folder`` and log there."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        arguments: Mapping[str, tuple[str, ...]],
        own: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.folder = folder
        self.arguments = dict(arguments)
        self._environment = dict(environment)
        self._own = dict(own or {})
        self._running: dict[str, _Running] = {}
        self._killed: set[int] = set()
        self.ended: list[Ended] = []
        """What ended although nobody had killed it."""

    def run(self, *words: str, code: int | None = 0, timeout: float = 120) -> str:
        """A command to its end; what it said. Raises RuntimeError where it ends otherwise than with ``code``."""
        done = subprocess.run(
            [*self.command("state"), *words],
            cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip
        if code is not None and done.returncode != code:
            raise RuntimeError(f"headwater {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def start_all(self) -> None:
        """Start what does not run, and note what ended by itself."""
        for name in self.arguments:
            self.start(name)

    def start(self, name: str, state: str = "state") -> None:
        before = self._running.get(name)
        if before is not None:
            if before.process.poll() is None:
                return
            self._note_end(name, before)
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [*self.command(state), *self._arguments_of(name)],
                cwd=self.folder, env=self._environment | dict(self._own.get(name, {})), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
            self._running[name] = _Running(process, time.time(), log.tell())

    def kill(self, name: str) -> None:
        """kill -9, now."""
        running = self._running.get(name)
        if running is not None and running.process.poll() is None:
            self._killed.add(running.process.pid)
            running.process.kill()
            running.process.wait(10)

    def pause(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def kill_all(self) -> None:
        for name in self._running:
            self.kill(name)

    def stop_all(self, within_seconds: float = 30) -> None:
        """SIGTERM to all; what has not ended then is killed."""
        for name in self._running:
            self._signal(name, signal.SIGTERM)
        deadline = time.monotonic() + within_seconds
        for name, running in self._running.items():
            with suppress(subprocess.TimeoutExpired):
                running.process.wait(max(0.1, deadline - time.monotonic()))
                self._killed.add(running.process.pid)
            self.kill(name)

    def pid(self, name: str) -> int:
        return self._running[name].process.pid

    def tracebacks(self) -> list[str]:
        """Logs in which a traceback stands."""
        return [
            log.name for log in self.folder.glob("*.log") if b"Traceback (most recent call last)" in log.read_bytes()
        ]

    def command(self, state: str) -> list[str]:
        return [sys.executable, "-m", "headwater.cli", "--set", f"state_folder={self.folder / state}"]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _arguments_of(self, name: str) -> tuple[str, ...]:
        return self.arguments.get(name) or self.arguments[name.partition(".")[0]]

    def _note_end(self, name: str, running: _Running) -> None:
        if running.process.pid in self._killed:
            return
        log = self.log(name)
        said = log.read_bytes()[running.log_begins :].decode(errors="replace").splitlines()
        words = " | ".join(said[-6:])[-1500:]
        self.ended.append(Ended(name, running.process.returncode, words, running.began, log.stat().st_mtime))

    def _signal(self, name: str, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._running[name].process.send_signal(number)


def wait_until(condition: Callable[[], object], within_seconds: float) -> bool:
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
