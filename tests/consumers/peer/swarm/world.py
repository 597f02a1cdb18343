"""A fleet on a turned clock: swarms and an origin whose words and bytes take a fixed time, and whose hosts may die."""

import heapq
import itertools
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from headwater.consumers.peer.bytes.fetch import COPY, Outcome
from headwater.consumers.peer.swarm.actions import Ask, Flight, GiveUp, Note, Tell
from headwater.consumers.peer.swarm.offers import Offers
from headwater.consumers.peer.swarm.swarm import Swarm
from headwater.rules.cast.choice import admits
from headwater.rules.cast.fallback import ORIGIN_SLOTS

ORIGIN = "origin"
WORD, CHUNK = 0.002, 0.02
DETECTED = 0.8


@dataclass
class World:
    racks: dict[str, list[str]]
    count: int
    seed: int = 0
    copied: bool = False
    black_holes: set[str] = field(default_factory=set)
    poisoners: set[str] = field(default_factory=set)
    slow: dict[str, float] = field(default_factory=dict)
    slots: int = 16

    def __post_init__(self):
        self.now = 0.0
        self.random = Random(self.seed)
        self.events: list = []
        self.order = itertools.count()
        self.dead: set[str] = set()
        self.rack_of = {host: rack for rack, hosts in self.racks.items() for host in hosts}
        self.placed = [(ORIGIN, 1, "")] + [(host, 1, rack) for host, rack in self.rack_of.items()]
        self.swarms = {host: self._swarm(host) for host in self.rack_of}
        self.origin = Offers(7, (ORIGIN, 1))
        self.origin.place(self.placed, frozenset())
        self.origin.hashed(self.count)
        self.flights: dict[str, list] = {host: [] for host in self.rack_of}
        self.busy: dict[str, list[tuple[bool, int]]] = {host: [] for host in [ORIGIN, *self.rack_of]}
        self.notes: list[tuple[float, str, Note]] = []
        self.received: list[tuple[str, str, int]] = []
        self.asks: list[tuple[float, Flight]] = []
        self.first_byte: dict[str, float] = {}
        self.finished: dict[str, float] = {}
        for swarm in self.swarms.values():
            swarm.place(self.placed, frozenset(), 0.0)
            swarm.hashed(self.count)
            if self.copied:
                swarm.copied()

    def _swarm(self, host):
        return Swarm(
            7, (host, 1), self.rack_of[host], ORIGIN, self.count, slots=self.slots, chance=self.random.random, now=0.0
        )

    def at(self, seconds, what, *arguments):
        heapq.heappush(self.events, (self.now + seconds, next(self.order), what, arguments))

    def kill(self, host):
        """It answers nobody from now on, and is noticed by all a moment later."""
        self.dead.add(host)
        self.at(DETECTED, self.notice, host)

    def notice(self, host):
        for name, swarm in self.swarms.items():
            if name not in self.dead:
                swarm.gone((host, 1), self.now)
        self.placed = [one for one in self.placed if one[0] != host]
        self.origin.gone((host, 1))
        self.origin.place(self.placed, frozenset())
        for name, swarm in self.swarms.items():
            if name not in self.dead:
                swarm.place(self.placed, frozenset(), self.now)

    def run(self, seconds):
        """Until all who live have everything, or so long."""
        self.at(0.0, self.tick)
        while self.events and self.now < seconds:
            self.now, _, what, arguments = heapq.heappop(self.events)
            what(*arguments)
            if all(self.swarms[host].complete for host in self.swarms if host not in self.dead):
                return
        raise AssertionError(
            f"after {seconds} s missing: "
            + ", ".join(f"{host}: {swarm.missing()[:5]}" for host, swarm in self.swarms.items() if not swarm.complete)
        )

    def tick(self):
        for host in self.swarms:
            self.act(host)
        if ORIGIN not in self.dead:
            self.hand_out()
        self.at(0.05, self.tick)

    def hand_out(self):
        for tell in self.origin.act(frozenset(chunk for _, chunk in self.busy[ORIGIN]), ORIGIN_SLOTS, self.now):
            self.deliver(ORIGIN, tell)

    def deliver(self, host, tell):
        for other in tell.hosts:
            if other in self.swarms:
                self.at(WORD, self.hear, other, host, tell)

    def hear(self, host, other, tell):
        if host not in self.dead:
            swarm = self.swarms[host]
            (swarm.coming if tell.coming else swarm.told)((other, 1), [tell.chunk], self.now)
            self.act(host)

    def act(self, host):
        if host in self.dead:
            return
        for action in self.swarms[host].act(self.now):
            if isinstance(action, Tell):
                self.deliver(host, action)
            elif isinstance(action, Note):
                self.notes.append((self.now, host, action))
            elif isinstance(action, Ask):
                self.ask(host, action.flight)
            elif isinstance(action, GiveUp):
                self.at(0.0, self.end, host, action.flight, Outcome.cancelled, 0.0)
        swarm = self.swarms[host]
        asked = Counter(flight.chunk for flight in swarm.flights)
        assert not asked or max(asked.values()) <= 2
        assert len(swarm.flights) <= self.slots
        assert not any(swarm.had[flight.chunk] and not flight.given_up for flight in swarm.flights)

    def ask(self, host, flight):
        source = flight.source[0]
        self.asks.append((self.now, flight))
        assert not self.swarms[host].others.quarantine.holds(*flight.source, self.now)
        if source == COPY:
            self.received.append((host, COPY, flight.chunk))
            self.at(4 * CHUNK, self.end, host, flight, Outcome.verified, 4 * CHUNK)
        elif source in self.dead:
            return  # silence: it is the deadline's affair
        elif source != ORIGIN and not self.swarms[source].had[flight.chunk]:
            self.at(2 * WORD, self.end, host, flight, Outcome.not_here, 0.0)
        elif not self.admits(source, host, flight.chunk):
            self.at(2 * WORD, self.end, host, flight, Outcome.busy, 0.0)
        elif source in self.black_holes:
            return
        else:
            self.busy[source].append((self.crosses(source, host), flight.chunk))
            flight.received = 1
            seconds = CHUNK * self.slow.get(source, 1.0) * self.random.uniform(0.8, 1.5)
            self.at(seconds, self.arrive, host, flight, seconds)

    def crosses(self, source, host):
        return self.rack_of.get(source) != self.rack_of[host]

    def admits(self, source, host, chunk):
        crosses = self.crosses(source, host)
        busy = [one for crossed, one in self.busy[source] if crossed is crosses]
        if source == ORIGIN:
            return len(busy) < ORIGIN_SLOTS and busy.count(chunk) < 2
        return admits(crosses, len(busy), busy.count(chunk))

    def arrive(self, host, flight, seconds):
        source = flight.source[0]
        self.busy[source].remove((self.crosses(source, host), flight.chunk))
        if source in self.dead or host in self.dead:
            return
        if source == ORIGIN:
            self.origin.served(flight.chunk, seconds, whole=True)
            self.hand_out()
        if flight.given_up:
            return
        self.received.append((host, source, flight.chunk))
        self.first_byte.setdefault(host, self.now)
        self.end(host, flight, Outcome.corrupt if source in self.poisoners else Outcome.verified, seconds)

    def end(self, host, flight, outcome, seconds):
        swarm = self.swarms[host]
        if host in self.dead or flight not in swarm.flights:
            return
        swarm.ended(flight, outcome, seconds, str(outcome), self.now)
        if swarm.complete:
            self.finished.setdefault(host, self.now)
        self.act(host)

    def copies_into(self, rack):
        """How often each chunk entered the rack, on average."""
        entered = [one for one in self.received if self.rack_of[one[0]] == rack and self.rack_of.get(one[1]) != rack]
        return len(entered) / self.count

    def of_origin(self):
        return sum(source == ORIGIN for _, source, _ in self.received) / self.count
