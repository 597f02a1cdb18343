"""The order of events: jobs are ordered while things fail, then all is mended, every job ends, and all is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psycopg
from chaos.proxy import Proxy
from chaos.servers import Servers
from inflicted import Fault
from processes import wait_until

from jobs.checker import Finding, judge
from jobs.clients import Clients, orders
from jobs.evidence import Evidence
from jobs.faults import LEASE_SECONDS, Deck, Inflict
from jobs.gather import Gatherer
from jobs.receiver import Receiver
from jobs.service import Service, Worker, free_ports

REST_SECONDS = 300.0
"""Long enough for a machine that does ten other things; what stands still does so for ever."""
SERVERS = ("kafka", "postgres", "s3")
TENANTS = ("amber", "birch")
REFUSALS = 0.05
"""The share of webhooks that the receiver refuses when they come first."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How hard a run is: of each seed ``jobs`` are ordered over ``seconds`` while ``faults`` happen; the slowest takes
    ``longest``. ``takeovers``: quiet kills to measure."""

    seeds: int
    jobs: int
    seconds: float
    faults: int
    away_seconds: float
    takeovers: int = 0
    longest: float = 2.0
    workers: int = 4
    copies: int = 2
    lease_seconds: float = LEASE_SECONDS


class Chaos:
    """One installation through rounds of faults; ``seed`` shuffles the deck that they come from."""

    def __init__(
        self,
        folder: Path,
        servers: Servers,
        receiver: Receiver,
        seed: int,
        shape: Shape,
        report: Callable[[str], None],
    ) -> None:
        self.shape = shape
        self.receiver = receiver
        self._servers = servers
        (outside,) = free_ports(1)
        workers = [Worker(f"worker.{number}", 8, options={"max_batch": 4}) for number in range(1, shape.workers + 1)]
        workers[0] = Worker("worker.1", 8, options={"max_batch": 4}, endpoint=f"http://127.0.0.1:{outside}")
        settings = {"HEADWATER_JOBS__LEASE_SECONDS": str(shape.lease_seconds)}
        self.service = Service(folder, servers.addresses, workers, copies=shape.copies, settings=settings)
        self.cut = Proxy(self.service.internal_port, outside)
        self.gatherer = Gatherer(servers.direct, servers.addresses.kafka, self.service.prefix)
        self._deck = Deck(Random(seed), tuple(self.service.arguments), shape.faults, shape.away_seconds)
        self.inflict = Inflict(self.service, servers, self.cut, report)

    def begin(self) -> None:
        self.tenants = self.service.prepare(TENANTS)
        self.receiver.know({tenant.name: tenant.secret for tenant in self.tenants})
        self.gatherer.watch()
        self.clients = Clients(self.service.urls, self.tenants, Random(0))
        self.service.begin()

    def round(self, seed: int, faults: Sequence[Fault] | None = None) -> list[Finding]:
        """What the checker found. ``seed`` decides the orders; ``faults`` None: the next ones from the deck."""
        dealt = self._deck.deal() if faults is None else list(faults)
        wanted = orders(Random(seed), self.shape.jobs, self.tenants, self.receiver, f"seed-{seed}", self.shape.longest)
        self.clients.start(wanted, self.shape.seconds)
        try:
            self.inflict.all(dealt)
        finally:
            self.inflict.heal()
        self.clients.join()
        found = self.come_to_rest()
        return [*found, *judge(self.evidence()), *self._behaviour()]

    def evidence(self) -> Evidence:
        """After a last look at every job."""
        self.clients.look()
        return self.gatherer.gather(self.clients.submitted, self.clients.shown, self.receiver.received())

    def come_to_rest(self) -> list[Finding]:
        """Every job ends, every webhook is delivered, every change is on the log."""
        left: list[tuple[str, int]] = []

        def ended() -> bool:
            nonlocal left
            self.service.start_all()
            left = [one for one in self._left() if one[1]]
            return not left

        if not wait_until(ended, REST_SECONDS):
            return [Finding("lost", "rest", f"not at rest after {REST_SECONDS:.0f} s: {left}")]
        return []

    def _left(self) -> list[tuple[str, int]]:
        with psycopg.connect(self.gatherer.dsn) as connection:
            return connection.execute(
                "SELECT 'jobs', count(*) FROM jobs.jobs WHERE completed_at IS NULL"
                " UNION ALL SELECT 'leases', count(*) FROM jobs.leases"
                " UNION ALL SELECT 'webhooks', count(*) FROM jobs.deliveries WHERE state = 'pending'"
                " UNION ALL SELECT 'outbox', count(*) FROM jobs.outbox"
            ).fetchall()

    def _behaviour(self) -> list[Finding]:
        """What no evidence shows: who was refused, who ended without being killed, who wrote a traceback."""
        dated = {one.key for one in self.clients.submitted if "expired" in one.ends}
        found = [Finding("ended", one.name, f"with {one.code}: {one.words}") for one in self.inflict.unexplained()]
        found += [
            Finding("lost", key, f"was refused for good: {answer}")
            for key, answer in self.clients.refused.items()
            if key not in dated  # a deadline that cannot be kept is refused
        ]
        return [*found, *(Finding("ended", name, "wrote a traceback") for name in self.service.tracebacks())]


@contextmanager
def installation(folder: Path, seed: int, shape: Shape, report: Callable[[str], None] = print) -> Iterator[Chaos]:
    """Servers, the service and its receiver below ``folder``, running; all stopped where the block ends."""
    with (
        Servers(folder / "stack", report, SERVERS) as servers,
        Receiver({}, Random(1), REFUSALS) as receiver,
    ):
        chaos = Chaos(folder / "service", servers, receiver, seed, shape, report)
        try:
            chaos.begin()
            yield chaos
        finally:
            chaos.service.kill_all()
            chaos.cut.close()
