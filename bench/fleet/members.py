"""Our own processes on the hosts of a fleet: a peer on each, a publisher on the origin; they can be killed or stopped.

Without namespaces the hosts are names and addresses on the loopback: ``Members`` does not know the difference.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from fleet.layout import Host
from headwater.rules.errors import Unavailable

Command = Callable[[Host, Sequence[str]], list[str]]
_GRACE_SECONDS = 20


def on_this_machine(host: Host, argv: Sequence[str]) -> list[str]:  # noqa: ARG001
    return list(argv)


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process. ``cpu_seconds``: of all its threads since its start."""

    cpu_seconds: float
    rss_mib: float
    descriptors: int
    threads: int


class Members:
    """``environment`` is what all of them share: the servers' addresses. Ended where the block ends."""

    def __init__(self, folder: Path, environment: Mapping[str, str], command: Command = on_this_machine) -> None:
        self.folder = folder
        self._command = command
        own = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        self._environment = {**own, "HEADWATER_PEER__KEY": secrets.token_hex(16), **environment}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.programs: dict[str, list[str]] = {}
        """What Python runs instead of headwater's command line, by the name of the process."""

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        deadline = time.monotonic() + _GRACE_SECONDS
        for name in [*self._running]:
            with suppress(subprocess.TimeoutExpired):
                self._running[name].wait(max(0.0, deadline - time.monotonic()))
            self.kill(name)

    def peer(self, host: Host) -> None:
        """The daemon that follows every cast which names the host."""
        self.start(host.name, host, "peer")

    def join(self, host: Host, cast: str) -> None:
        """One cast, to its end."""
        self.start(host.name, host, "cast", "join", cast, "--into", str(self.into(host)))

    def publish(self, host: Host, file: Path, cast: str, *words: str) -> str:
        """Returns the name of the process, which ends when every target has the file."""
        name = f"{host.name}.{cast}"
        self.start(name, host, "cast", "publish", str(file), "--name", cast, "--no-copy", *words)
        return name

    def gossip(self, host: Host) -> None:
        """The stream processor that adds up what the peers have."""
        self.start("gossip", host, "run", "gossip")

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def pause(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def lives(self, name: str) -> bool:
        return name in self._running and self._running[name].poll() is None

    def wait(self, name: str, within_seconds: float) -> int:
        """The exit code of a process that ends by itself."""
        try:
            return self._running[name].wait(within_seconds)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{name} still runs after {within_seconds:.0f} s: {self.words(name)}") from None

    def process(self, name: str) -> psutil.Process:
        return psutil.Process(self._running[name].pid)

    def usage(self, name: str) -> Usage:
        process = self.process(name)
        with process.oneshot():
            times = process.cpu_times()
            return Usage(
                times.user + times.system, process.memory_info().rss / 2**20, process.num_fds(), process.num_threads()
            )

    def cpu_seconds(self) -> float:
        """Of all that run, and of every child of this process that ended."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        running = sum(self.usage(name).cpu_seconds for name in self._running if self.lives(name))
        return ended.ru_utime + ended.ru_stime + running

    def into(self, host: Host) -> Path:
        """Where the host's files appear."""
        return self.folder / host.name / "into"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def words(self, name: str) -> str:
        """The last that a process said."""
        return self.log(name).read_text(errors="replace")[-1500:]

    def tracebacks(self) -> list[str]:
        """Logs in which a traceback stands."""
        return [log.name for log in self.folder.glob("*.log") if b"Traceback (most recent call" in log.read_bytes()]

    def start(self, name: str, host: Host, *words: str) -> None:
        """``headwater`` with these words, on a host, under a name of its own."""
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._command(host, [sys.executable, *self.programs.get(name, ["-m", "headwater.cli"]), *words]),
                env=self._environment_of(host), cwd=self._home(host), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def storm(self, hosts: Sequence[Host], cast: str) -> None:
        """``cast join`` on all of these at once, on this machine: one process, named storm, that forks them all."""
        started = [
            {
                "words": ["cast", "join", cast, "--into", str(self.into(host))],
                "environment": self._environment_of(host),
                "folder": str(self._home(host)),
                "log": str(self.log(host.name)),
            }
            for host in hosts
        ]
        bench = str(Path(__file__).parents[1])
        with self.log("storm").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "fleet.storm"],
                env={**os.environ, "PYTHONPATH": bench, "OPENBLAS_NUM_THREADS": "1"},
                cwd=self.folder, stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip
        self._running["storm"] = process
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(json.dumps(started).encode())

    def _home(self, host: Host) -> Path:
        self.into(host).mkdir(parents=True, exist_ok=True)
        return self.folder / host.name

    def _environment_of(self, host: Host) -> dict[str, str]:
        own = {
            "HEADWATER_STATE_FOLDER": str(self.folder / host.name / "state"),
            "HEADWATER_PEER__HOST": host.name,
            "HEADWATER_PEER__RACK": host.rack,
            "HEADWATER_PEER__LISTEN": str(host.address),
            "HEADWATER_PEER__ADVERTISED": str(host.address),
            "HEADWATER_PEER__INTO": str(self.into(host)),
        }
        return {**self._environment, **own}
