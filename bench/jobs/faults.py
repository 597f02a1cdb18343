"""What goes wrong with the job service, as a plan that a seed decides: which fault, on whom, for how long."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from random import Random
from urllib.parse import urlsplit

from chaos.proxy import Proxy
from chaos.servers import Servers
from inflicted import Fault, Inflicted
from processes import Ended

from headwater.stack.addresses import Addresses
from jobs.service import GROUPS, Service

SERVERS = ("kafka", "postgres", "s3")
LEASE_SECONDS = 5.0
"""Of every lease, so that a round need not wait long for one to end."""
STOP_SECONDS = 2 * LEASE_SECONDS
"""A stopped worker loses its leases meanwhile, and wakes up to results that nobody may take."""
SCHEDULER_SECONDS = 30.0

DECK = (
    *["kill worker"] * 6,
    *["stop worker"] * 3,
    *["cut-off worker"] * 2,
    "kill api",
    *[f"kill {group}" for group in GROUPS],
    *[f"stop {group}" for group in ("outbox", "sweep", "webhooks")],
    "pause dispatch",
    *[f"restart {server}" for server in SERVERS],
    "away s3",
    *[f"drop {server}" for server in SERVERS],
)
"""The kinds of faults, each as often as it comes before the deck is shuffled again."""
KINDS = tuple(dict.fromkeys(DECK))


class Deck:
    """Deals the faults of one round after the other: no kind comes twice as often as the deck says before each has
    come. ``names``: the processes; of those of a kind, the seed chooses."""

    def __init__(self, random: Random, names: tuple[str, ...], faults: int, away_seconds: float) -> None:
        self._random = random
        self._names = names
        self._faults = faults
        self._away_seconds = away_seconds
        self._cards: list[str] = []

    def deal(self) -> list[Fault]:
        return [self._draw() for _ in range(self._faults)]

    def _draw(self) -> Fault:
        if not self._cards:
            self._cards = list(DECK)
            self._random.shuffle(self._cards)
        name, _, victim = self._cards.pop().partition(" ")
        if name == "cut-off":
            victim = "worker.1"  # the one that is behind a proxy
        elif victim not in SERVERS:
            victim = self._random.choice([one for one in self._names if one.partition(".")[0] == victim])
        return Fault(name, victim, self._lasts(name), self._random.uniform(0.2, 1.5))

    def _lasts(self, name: str) -> float:
        random = self._random
        return {
            "kill": random.uniform(0, 1.5),
            "stop": STOP_SECONDS,
            "cut-off": random.choice((LEASE_SECONDS / 2, 2 * LEASE_SECONDS)),
            "pause": SCHEDULER_SECONDS,
            "restart": random.choice((0.5, 3.0)),
            "away": self._away_seconds,
            "drop": random.choice((0.2, 1.0)),
        }[name]


ECHO_SECONDS = 5.0
"""A server that is back may still turn callers away: a broker elects, a database recovers."""
_UNAVAILABLE = 69


def explains(one: Inflicted, ended: Ended, addresses: Addresses) -> bool:
    """Whether the plan foresees that a process ended so: it found a server away, and says which. Its service manager
    starts it again, and so do we."""
    if ended.ended < one.began or ended.began > one.ended + ECHO_SECONDS or ended.code != _UNAVAILABLE:
        return False
    if one.fault.victim not in SERVERS:
        return False
    address = getattr(addresses, one.fault.victim)
    return (urlsplit(address).netloc or address).rpartition("@")[2] in ended.words


class Inflict:
    """Carries plans out. ``cut``: between the first worker and the endpoint."""

    def __init__(self, service: Service, servers: Servers, cut: Proxy, report: Callable[[str], None]) -> None:
        self._service = service
        self._servers = servers
        self._cut = cut
        self._report = report
        self.history: list[Inflicted] = []

    def counts(self) -> dict[str, int]:
        """How often each of ``KINDS`` happened."""
        counted = Counter(one.fault.kind for one in self.history)
        return {kind: counted[kind] for kind in KINDS}

    def unexplained(self) -> list[Ended]:
        """Processes that ended by themselves although no fault makes them."""
        addresses = self._servers.addresses
        return [
            ended for ended in self._service.ended if not any(explains(one, ended, addresses) for one in self.history)
        ]

    def all(self, faults: list[Fault]) -> None:
        for fault in faults:
            time.sleep(fault.after)
            self._report(str(fault))
            began = time.time()
            getattr(self, "_" + fault.name.replace("-", "_"))(fault)
            self.history.append(Inflicted(fault, began, time.time()))
            self._service.start_all()

    def heal(self) -> None:
        """Everything answers again, and everything runs."""
        self._cut.heal()
        self._servers.heal()
        self._service.start_all()

    def _kill(self, fault: Fault) -> None:
        self._service.kill(fault.victim)
        time.sleep(fault.seconds)

    def _stop(self, fault: Fault) -> None:
        self._service.pause(fault.victim)
        time.sleep(fault.seconds)
        self._service.resume(fault.victim)

    def _pause(self, fault: Fault) -> None:
        """All of the kind, so that none takes over."""
        group = fault.victim.partition(".")[0]
        members = [name for name in self._service.arguments if name.partition(".")[0] == group]
        for name in members:
            self._service.pause(name)
        time.sleep(fault.seconds)
        for name in members:
            self._service.resume(name)

    def _cut_off(self, fault: Fault) -> None:
        self._cut.stall()
        time.sleep(fault.seconds)
        self._cut.drop()
        self._cut.heal()

    def _restart(self, fault: Fault) -> None:
        self._servers.kill(fault.victim)
        time.sleep(fault.seconds)
        self._servers.start()

    _away = _restart

    def _drop(self, fault: Fault) -> None:
        proxy = self._servers.proxies[fault.victim]
        proxy.refuse()
        time.sleep(fault.seconds)
        proxy.heal()
