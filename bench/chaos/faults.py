"""What goes wrong, as a plan that a seed decides: which fault, on whom, for how long, after how long."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import urlsplit

from inflicted import Fault, Inflicted
from processes import Ended, wait_until

from chaos import servers as all_servers
from chaos.evidence import Pause
from chaos.members import Members
from chaos.servers import Servers
from headwater.stack.addresses import Addresses

LONG_SECONDS = 13.0
"""Longer than the groups' session (6 s), a transaction (10 s) and the broker's patience with either."""

PATHS = ("kafka", "s3", "postgres")
"""The network paths that go bad."""

_OURS = ("agent", "upload-files", "upload-parts", "verify-objects", "verify-large", "commit")
_ON_PATHS = ("drop", "refuse", "delay", "stall", "half-close")
_ON_SERVERS = ("restart", "away")

DECK = (
    *[f"kill {name}" for name in _OURS] * 3,
    *[f"stop {name}" for name in _OURS],
    *[f"{fault} {name}" for fault in _ON_SERVERS for name in all_servers.NAMES],
    *[f"{fault} {path}" for fault in _ON_PATHS for path in PATHS],
    *["second-committer", "second-agent"] * 2,
)
"""The kinds of faults, each as often as it comes before the deck is shuffled again."""
KINDS = tuple(dict.fromkeys(DECK))


class Deck:
    """Deals the faults of one round after the other: no kind comes twice before each has come once."""

    def __init__(self, random: Random, seconds: float, *, away_seconds: float) -> None:
        """A round's faults last about ``seconds`` together; a server is away for ``away_seconds``."""
        self._random = random
        self._seconds = seconds
        self._away_seconds = away_seconds
        self._cards: list[str] = []
        self._held_back: list[Fault] = []

    def deal(self) -> list[Fault]:
        """The faults of the next round. One that is too long for what is left of the round begins the next one."""
        found: list[Fault] = []
        waiting, self._held_back = self._held_back, []
        used = 0.0
        while used < self._seconds:
            fault = waiting.pop(0) if waiting else self._draw()
            lasts = fault.after + fault.seconds
            if found and used + lasts > 1.5 * self._seconds:
                self._held_back.append(fault)
            else:
                found.append(fault)
                used += lasts
        self._held_back = [*waiting, *self._held_back]
        return found

    def _draw(self) -> Fault:
        if not self._cards:
            self._cards = list(DECK)
            self._random.shuffle(self._cards)
        name, _, victim = self._cards.pop().partition(" ")
        if victim in _OURS:
            victim = self._random.choice([one for one in Members.NAMES if one.partition(".")[0] == victim])
        return Fault(name, victim, self._lasts(name), self._random.uniform(0.2, 2.0))

    def _lasts(self, name: str) -> float:
        random = self._random
        if name == "kill":
            return random.uniform(0, 1.5)
        if name == "stop":
            return LONG_SECONDS
        if name == "restart":
            return random.choice((1.0, 5.0))
        if name == "away":
            return self._away_seconds
        if name in _ON_PATHS:
            return random.choice((0.5, 3.0, min(12.0, self._away_seconds)))
        return random.uniform(1, 4)


ECHO_SECONDS = 5.0
"""A server that is back may still turn callers away: a broker elects, a database recovers."""


def explains(one: Inflicted, ended: Ended, addresses: Addresses) -> bool:
    """Whether the plan foresees that a process ended so: it found a server away when it started, and says which (its
    service manager starts it again, and so do we); or it is the older of two committers.
    """
    if ended.ended < one.began or ended.began > one.ended + ECHO_SECONDS:
        return False
    if one.fault.name == "second-committer":
        return ended.name.startswith("commit") and ended.code == _FENCED
    if one.fault.victim not in all_servers.NAMES or ended.code != _UNAVAILABLE:
        return False
    address = getattr(addresses, one.fault.victim)
    return (urlsplit(address).netloc or address).rpartition("@")[2] in ended.words


_UNAVAILABLE = 69
_FENCED = 4


class Inflict:
    """Carries plans out. ``accepted_agents`` counts second agents that were not refused."""

    def __init__(self, members: Members, servers: Servers, report: Callable[[str], None]) -> None:
        self._members = members
        self._servers = servers
        self._report = report
        self.history: list[Inflicted] = []
        self.accepted_agents = 0

    def counts(self) -> dict[str, int]:
        """How often each of ``KINDS`` happened."""
        counted = Counter(one.fault.kind for one in self.history)
        return {kind: counted[kind] for kind in KINDS}

    def pauses(self) -> list[Pause]:
        return [Pause(one.fault.victim, one.began, one.ended) for one in self.history if one.fault.name == "stop"]

    def unexplained(self) -> list[Ended]:
        """Processes that ended by themselves although no fault makes them."""
        addresses = self._servers.addresses
        return [
            ended for ended in self._members.ended if not any(explains(one, ended, addresses) for one in self.history)
        ]

    def all(self, faults: list[Fault]) -> None:
        for fault in faults:
            time.sleep(fault.after)
            self._report(str(fault))
            self.one(fault)

    def one(self, fault: Fault) -> None:
        began = time.time()
        getattr(self, "_" + fault.name.replace("-", "_"))(fault)
        self.history.append(Inflicted(fault, began, time.time()))
        self._members.start_all()

    def _kill(self, fault: Fault) -> None:
        self._members.kill(fault.victim)
        time.sleep(fault.seconds)

    def _stop(self, fault: Fault) -> None:
        self._members.pause(fault.victim)
        time.sleep(fault.seconds)
        self._members.resume(fault.victim)

    def _restart(self, fault: Fault) -> None:
        self._servers.kill(fault.victim)
        time.sleep(fault.seconds)
        self._servers.start()

    _away = _restart

    def _second_committer(self, fault: Fault) -> None:
        self._members.start("commit.2")
        time.sleep(fault.seconds)
        self._members.kill("commit.2")

    def _second_agent(self, fault: Fault) -> None:
        wait_until(self._members.agent_facts, 20)
        if self._members.second_agent() == 0:
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
