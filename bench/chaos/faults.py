"""What goes wrong, as a plan that a seed decides: which fault, on whom, for how long, after how long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from chaos import servers as all_servers
from chaos.members import Members
from chaos.servers import Servers

LONG_SECONDS = 13.0
"""Longer than the groups' session (6 s), a transaction (10 s) and the broker's patience with either."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``seconds`` is how long it lasts, ``after`` how long all is well before it."""

    name: str
    victim: str
    seconds: float
    after: float

    def __str__(self) -> str:
        return f"{self.name} {self.victim} for {self.seconds:.1f} s"


PATHS = ("kafka", "s3", "postgres")
"""The network paths that go bad."""


def plan(random: Random, seconds: float, *, away_seconds: float) -> list[Fault]:
    """Faults that together last about ``seconds``; a server is away for ``away_seconds`` at most."""
    found: list[Fault] = []
    while (used := sum(one.after + one.seconds for one in found)) < seconds:
        kind = random.choice(_KINDS)
        after = random.uniform(0.2, 2.0)
        if kind == "kill":
            fault = Fault("kill", random.choice(Members.NAMES), random.uniform(0, 1.5), after)
        elif kind == "stop":
            fault = Fault("stop", random.choice(Members.NAMES), LONG_SECONDS, after)
        elif kind == "server":
            longest = random.choice((1.0, 5.0, away_seconds))
            fault = Fault("server", random.choice(all_servers.NAMES), min(longest, away_seconds), after)
        elif kind in ("second-committer", "second-agent"):
            fault = Fault(kind, "", random.uniform(1, 4), after)
        else:
            fault = Fault(kind, random.choice(PATHS), random.choice((0.5, 3.0, min(12.0, away_seconds))), after)
        if used + fault.after + fault.seconds > 1.5 * seconds:
            fault = Fault("kill", random.choice(Members.NAMES), 0.5, after)
        found.append(fault)
    return found


_KINDS = (
    *["kill"] * 5,
    *["stop"] * 2,
    *["server"] * 2,
    "drop", "refuse", "delay", "stall", "half-close",
    "second-committer", "second-agent",
)  # fmt: skip


class Inflict:
    """Carries a plan out. ``accepted_agents`` counts second agents that were not refused."""

    def __init__(self, members: Members, servers: Servers, report: Callable[[str], None]) -> None:
        self._members = members
        self._servers = servers
        self._report = report
        self.accepted_agents = 0

    def all(self, faults: list[Fault]) -> None:
        for fault in faults:
            time.sleep(fault.after)
            self._report(str(fault))
            self.one(fault)

    def one(self, fault: Fault) -> None:
        getattr(self, "_" + fault.name.replace("-", "_"))(fault)
        self._members.start_all()

    def _kill(self, fault: Fault) -> None:
        self._members.kill(fault.victim)
        time.sleep(fault.seconds)

    def _stop(self, fault: Fault) -> None:
        self._members.pause(fault.victim)
        time.sleep(fault.seconds)
        self._members.resume(fault.victim)

    def _server(self, fault: Fault) -> None:
        self._servers.kill(fault.victim)
        time.sleep(fault.seconds)
        self._servers.start()

    def _second_committer(self, fault: Fault) -> None:
        self._members.start("commit.2")
        time.sleep(fault.seconds)
        self._members.kill("commit.2")

    def _second_agent(self, fault: Fault) -> None:
        if self._members.agent_facts() and self._members.second_agent() == 0:
            self.accepted_agents += 1
        time.sleep(fault.seconds)

    def _on_path(self, fault: Fault, begin: Callable[[Any], None]) -> None:
        proxy = self._servers.proxies[fault.victim]
        begin(proxy)
        time.sleep(fault.seconds)
        proxy.heal()

    def _drop(self, fault: Fault) -> None:
        self._on_path(fault, lambda proxy: proxy.drop())

    def _refuse(self, fault: Fault) -> None:
        self._on_path(fault, lambda proxy: proxy.refuse())

    def _delay(self, fault: Fault) -> None:
        self._on_path(fault, lambda proxy: proxy.delay(0.3))

    def _stall(self, fault: Fault) -> None:
        self._on_path(fault, lambda proxy: proxy.stall())

    def _half_close(self, fault: Fault) -> None:
        self._on_path(fault, lambda proxy: proxy.half_close())
