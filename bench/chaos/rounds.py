"""The order of events: the folder is edited while things fail, then all is mended, comes to rest, and is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import psycopg
from inflicted import Fault
from processes import wait_until

from chaos.checker import Finding, judge
from chaos.evidence import Evidence
from chaos.faults import Deck, Inflict
from chaos.gather import Gatherer
from chaos.members import DATASET, Members
from chaos.servers import Servers
from chaos.workload import Workload

REST_SECONDS = 480.0
"""Long enough for a machine that does ten other things; what stands still does so for ever."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How hard a run is. One operation in ``large_every`` is about a large file."""

    rounds: int
    seconds: float
    away_seconds: float
    large_every: int
    files: int = 300


class Chaos:
    """One installation and its folder, through rounds of faults."""

    def __init__(self, folder: Path, servers: Servers, seed: int, shape: Shape, report: Callable[[str], None]) -> None:
        self.members = Members(folder, servers.addresses)
        self.workload = Workload(self.members.root, seed, files=shape.files)
        self.gatherer = Gatherer(
            bytes(self.members.root), servers.direct, servers.addresses.kafka, servers.traffic, self.workload.journal
        )
        self.shape = shape
        self.through_proxies = servers.addresses
        self._servers = servers
        self._deck = Deck(Random(seed), shape.seconds, away_seconds=shape.away_seconds)
        self.inflict = Inflict(self.members, servers, report)

    def begin(self) -> None:
        """The installation runs, and its folder has its first files."""
        self.members.prepare()
        self.gatherer.watch()
        for _ in range(self.shape.files // 3):
            self.workload.change()
        self.workload.large()
        self.members.start_all()
        if not wait_until(lambda: bool(self.members.agent_facts()), REST_SECONDS):
            raise TimeoutError(f"the agent does not answer; see {self.members.folder}")

    def round(self, faults: list[Fault] | None = None) -> list[Finding]:
        """One round; what the checker found. ``faults`` None: the next ones by the seed."""
        faults = faults or self._deck.deal()
        self.workload.start(large_every=self.shape.large_every)
        try:
            self.inflict.all(faults)
        finally:
            self.workload.stop()
            self._servers.heal()
        return [*self.come_to_rest(), *judge(self.evidence()), *self._behaviour()]

    def evidence(self) -> Evidence:
        return replace(self.gatherer.gather(), pauses=self.inflict.pauses())

    def come_to_rest(self) -> list[Finding]:
        """All that is mended ends its work, and a version is made of it."""
        deadline = time.monotonic() + REST_SECONDS
        if not wait_until(self._is_quiet, REST_SECONDS):
            return [Finding("lost", "rest", f"not quiet after {REST_SECONDS:.0f} s: {self.members.agent_facts()}")]
        if not wait_until(self._commit_request(), max(30.0, deadline - time.monotonic())):
            return [Finding("lost", "rest", "a requested commit is not made")]
        return []

    def _is_quiet(self) -> bool:
        """The agent says so, several times, without a new change between."""
        said = []
        for _ in range(3):
            self.members.start_all()
            facts = self.members.agent_facts()
            if not facts or not facts["walked"] or any(facts[name] for name in _BUSY):
                return False
            said.append(facts["seq"])
            time.sleep(1.1)
        return len(set(said)) == 1

    def _commit_request(self) -> Callable[[], bool]:
        """Ask for a version as the command line does; the returned question is whether it was answered."""
        dsn = self.gatherer.addresses.postgres
        with psycopg.connect(dsn) as connection:
            asked = connection.execute(
                "INSERT INTO commit_requests (dataset, message) VALUES (%s, 'at rest') RETURNING id", [DATASET]
            ).fetchone()
        assert asked is not None

        def answered() -> bool:
            self.members.start_all()
            with psycopg.connect(dsn) as connection:
                row = connection.execute("SELECT done_at IS NOT NULL FROM commit_requests WHERE id = %s", asked)
                settled = connection.execute(
                    "SELECT count(*) FROM versions WHERE dataset = %s AND announced_at IS NULL", [DATASET]
                ).fetchone()
            return bool((found := row.fetchone()) and found[0] and settled == (0,))

        return answered

    def _behaviour(self) -> list[Finding]:
        """What no evidence shows: who ended without being killed, who wrote a traceback, who was let in."""
        found = [Finding("ended", one.name, f"with {one.code}: {one.words}") for one in self.inflict.unexplained()]
        found += [Finding("ended", name, "wrote a traceback") for name in self.members.tracebacks()]
        if self.inflict.accepted_agents:
            found.append(Finding("ended", "second agent", "was not refused"))
        return found


_BUSY = ("dirty", "settling", "reading", "held", "outbox", "pending", "directories_due")


@contextmanager
def installation(folder: Path, seed: int, shape: Shape, report: Callable[[str], None] = print) -> Iterator[Chaos]:
    """Servers and members below ``folder``, running; all stopped where the block ends."""
    with Servers(folder / "stack", report) as servers:
        chaos = Chaos(folder / "site", servers, seed, shape, report)
        try:
            chaos.begin()
            yield chaos
        finally:
            chaos.members.kill_all()
