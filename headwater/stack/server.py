"""What every server of the stack has in common: prepare, start, wait until it answers, stop."""

from __future__ import annotations

import signal
import socket
import time
from typing import Protocol

from headwater.rules.errors import BadSettings, Unavailable
from headwater.stack import processes
from headwater.stack.addresses import Addresses
from headwater.stack.home import LOOPBACK, Place
from headwater.stack.progress import Report

ANSWER_SECONDS = 120.0  # measured 1-6 s; 23 s for Kafka on a machine with load 8
_POLL_SECONDS = 0.05


class Server(Protocol):
    """One program of the stack. All calls block; none is safe to make twice at once for one home."""

    name: str
    stop_signal: signal.Signals

    def prepare(self, report: Report) -> None:
        """Fetches or builds the program, once."""

    def start(self, place: Place, addresses: Addresses) -> None:
        """Starts the process, detached, unless it runs; it may not answer yet. ``addresses``: where the others are."""

    def answer(self, address: str) -> str:
        """One real call; returns what the server says it is. Raises Unavailable if it does not answer."""

    def finish(self, place: Place, address: str) -> None:
        """What is done once on a server that answers, before it is of use: a bucket, a first user."""


def require_free_ports(name: str, ports: dict[str, int]) -> None:
    """Raises BadSettings, naming the port and its setting, if somebody listens where ``name`` is to listen."""
    for setting, port in ports.items():
        if not port_is_free(port):
            raise BadSettings(
                f"{name} cannot listen on port {port}: another program does.",
                kept="What runs already keeps running.",
                advice=f"Set stack.{setting}_port to a free port, or stop the program that holds {port}.",
                port=port,
                setting=f"stack.{setting}_port",
            )


def port_is_free(port: int, host: str = LOOPBACK) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as attempt:
        # As servers do: a port whose last connections are only winding down is free.
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
        except OSError:
            return False
    return True


def wait_until_it_answers(server: Server, place: Place, address: str) -> str:
    """Waits for one real answer of a server that was just started.

    Raises:
        Unavailable: its process ended, or it did not answer in time.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return server.answer(address)
        except Unavailable as silent:
            log = processes.log_path(server.name, place.home)
            if processes.alive(server.name, place.home) is None:
                raise Unavailable(
                    f"{server.name} ended while starting: {processes.last_line(log)}",
                    kept="Its data is as it was.",
                    advice=f"See {log}.",
                ) from silent
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{server.name} does not answer after {ANSWER_SECONDS:.0f} s: {silent.happened}",
                    advice=f"See {log}; `headwater doctor` looks at the machine.",
                ) from silent
        time.sleep(_POLL_SECONDS)


def require_listener(host: str, port: int) -> None:
    """A cheap first look before the real call. Raises Unavailable if nobody listens."""
    try:
        with socket.create_connection((host, port), timeout=1):
            pass
    except OSError as refused:
        raise Unavailable(f"Nobody listens on {host}:{port}.") from refused
