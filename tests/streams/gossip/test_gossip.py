"""Summaries of racks, on a real log: what a rack has, who is slow, who is silent; after a restart, and by two."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import numpy as np
import pytest

from headwater.connectors.kafka.lag import group_lags
from headwater.connectors.kafka.partitioning import partition_of
from headwater.observe import metrics
from headwater.rules.cast.bitmap import unpack
from headwater.rules.cast.chunks import Chunks
from headwater.schemas.cast_records import CastEventKind, CastState, ManifestKind, MemberState
from headwater.schemas.topics import CAST_AVAILABILITY, CAST_MANIFESTS
from headwater.streams.gossip.gossip import Gossip
from tests.any_cast import CastLog, Peer

pytestmark = pytest.mark.stack
MIB = 1024 * 1024
CHUNKS = Chunks(40 * MIB, MIB)


@contextmanager
def gossiping(log: CastLog) -> Iterator[Gossip]:
    """One member in a thread; afterwards it left its group."""
    gossip = Gossip(log.kafka)
    thread = Thread(target=gossip.run, daemon=True)
    thread.start()
    try:
        yield gossip
    finally:
        gossip.stop()
        thread.join(30)
        assert not thread.is_alive()


def bits(*had: int) -> np.ndarray:
    found = np.zeros(CHUNKS.count, np.bool_)
    found[list(had)] = True
    return found


class Speaking:
    """Says once a second what each peer has, from a script: ``has(peer)`` is called for bits and rate."""

    def __init__(self, log, epoch, peers, has):
        self._stop, self._log, self._epoch, self._peers, self._has = Event(), log, epoch, peers, has
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while True:
            for peer in self._peers:
                said = self._has(peer)
                if said is not None:
                    self._log.have(peer, self._epoch, *said)
            self._log.flush()
            if self._stop.wait(1.0):
                return


def test_a_rack_is_summed_up_from_full_records_and_differences(log, eventually):
    a, b, c = Peer("a", "r1"), Peer("b", "r1"), Peer("c", "")
    log.join(a, b, c, Peer("origin", "r1"))
    log.announce("model", 7, CHUNKS)
    log.have(a, 7, bits(0, 1), rate=1_000)
    log.have(a, 7, bits(0, 1, 5), rate=3_000)
    log.have(b, 7, bits(1, 2), rate=500)
    log.flush()

    with gossiping(log) as gossip:
        rack = eventually(lambda: log.newest().get((7, "r1")), within_seconds=30)
        assert gossip.state().phase == "running"
        assert len(gossip.state().partitions) == 64
        unlabelled = eventually(lambda: log.newest().get((7, "")))

    assert (rack.hosts, rack.complete, rack.installed) == (2, 0, 0), "the origin is none of them"
    assert (rack.least, rack.median, rack.most) == (2, 2, 3)
    assert np.flatnonzero(unpack(rack.bits, 40)).tolist() == [0, 1, 2, 5]
    assert (unlabelled.hosts, unlabelled.most) == (1, 0)
    assert rack.view == max(a.number, b.number) + 1, "the offset of the rack's last record, the origin's"


def test_complete_and_installed_hosts_are_counted_and_a_cast_that_is_over_is_not_summed_up(log, eventually):
    a, b = Peer("a", "r1"), Peer("b", "r1")
    log.join(a, b)
    log.announce("model", 7, CHUNKS)
    log.announce("gone", 6, CHUNKS)
    log.manifest("gone", 6, ManifestKind.removed, reason="by hand")
    log.announce("old", 5, CHUNKS, expires_us=1)
    log.announce("other", 4, CHUNKS)
    log.announce("other", 8, CHUNKS, targets=("rack:r9",))
    log.have(a, 7, bits(*range(40)))
    log.have(b, 7, bits(3))
    log.step(a, 7, "model", CastState.complete)
    log.step(a, 7, "model", CastState.installed)
    log.flush()

    with gossiping(log):
        rack = eventually(lambda: log.newest().get((7, "r1")), within_seconds=30)
        assert (rack.complete, rack.installed, rack.least, rack.most) == (1, 1, 1, 40)
        assert unpack(rack.bits, 40).all()
        assert log.newest().keys() == {(7, "r1")}

        log.step(b, 7, "model", CastState.installed)
        log.flush()
        rack = eventually(lambda: log.newest().get((7, "r1")) if log.newest()[7, "r1"].installed == 2 else None)
        assert (rack.complete, rack.least, rack.silent) == (2, 40, ())


def test_the_slow_and_the_silent_are_named_and_only_they(log, eventually):
    peers = [Peer(name, "r1") for name in ("a", "b", "c", "slow", "dead", "gone", "never")]
    log.join(*peers)
    log.announce("model", 7, CHUNKS)
    log.member(peers[5], MemberState.suspected)
    began = time.monotonic()

    def has(peer):
        if (peer.host == "dead" and time.monotonic() - began > 2) or peer.host in ("gone", "never"):
            return None
        rate = 2 * MIB if peer.host == "slow" else 9 * MIB
        seconds = min(4, int(time.monotonic() - began))
        return bits(*range(int(rate / MIB * seconds))), rate

    with gossiping(log), Speaking(log, 7, peers, has):
        rack = eventually(lambda: (found := log.newest().get((7, "r1"))) and found.slow and found, within_seconds=40)
        assert rack.slow == ("slow",)
        assert rack.hosts == 6, "who is suspected is not there"
        silent = eventually(lambda: (found := log.newest()[7, "r1"].silent) == ("dead", "gone", "never") and found)
        assert silent == ("dead", "gone", "never")
        assert log.newest()[7, "r1"].bytes_per_second == 29 * MIB


def test_after_a_restart_all_that_was_said_is_known_again_from_differences_too(log, eventually):
    peers = [Peer(f"h{at}", f"r{at % 3}") for at in range(9)]
    log.join(*peers)
    log.announce("model", 7, CHUNKS)
    begun = time.monotonic()
    had: dict[str, int] = {}

    def has(peer):
        had[peer.host] = min(39, 1 + int(4 * (time.monotonic() - begun)))
        return bits(*range(had[peer.host])), MIB

    with Speaking(log, 7, peers, has):
        with gossiping(log):
            eventually(lambda: len(log.newest()) == 3, within_seconds=30)
        before = {rack.at_us for rack in log.racks()}
        started = time.monotonic()
        with gossiping(log):
            new = eventually(lambda: [rack for rack in log.racks() if rack.at_us not in before], within_seconds=30)
            assert time.monotonic() - started < 15
    for rack in new:
        assert int(unpack(rack.bits, 40).sum()) == rack.most
        assert rack.least > 0, "nothing is told before what was said is read"
        assert rack.silent == ()


def test_two_members_share_the_racks_and_one_takes_over_from_the_other(log, eventually):
    peers = [Peer(f"h{at}", f"r{at}") for at in range(12)]
    log.join(*peers)
    log.announce("model", 7, CHUNKS)

    with Speaking(log, 7, peers, lambda _: (bits(1), MIB)), gossiping(log) as first:
        eventually(lambda: len(log.newest()) == 12, within_seconds=30)
        with gossiping(log) as second:
            eventually(lambda: len(first.state().partitions) == len(second.state().partitions) == 32, within_seconds=30)
            at_us = max(rack.at_us for rack in log.racks())
            eventually(lambda: all(rack.at_us > at_us for rack in log.newest().values()), within_seconds=30)
        eventually(lambda: len(first.state().partitions) == 64, within_seconds=30)
        at_us = max(rack.at_us for rack in log.racks())
        eventually(lambda: all(rack.at_us > at_us for rack in log.newest().values()), within_seconds=30)
        assert {rack.hosts for rack in log.racks()} == {1}


def test_a_peer_that_starts_anew_is_heard_under_its_new_number_only(log, eventually):
    old = Peer("a", "r1")
    log.join(old)
    log.announce("model", 7, CHUNKS)
    log.have(old, 7, bits(*range(30)))
    new = Peer("a", "r1", incarnation=2)
    log.join(new)
    log.have(new, 7, bits(4))
    log.have(old, 7, bits(*range(31)))
    log.flush()

    with gossiping(log):
        rack = eventually(lambda: log.newest().get((7, "r1")), within_seconds=30)

    assert (rack.hosts, rack.most) == (1, 1)
    assert np.flatnonzero(unpack(rack.bits, 40)).tolist() == [4]


def test_a_rack_that_all_left_is_said_to_be_empty(log, eventually):
    peer = Peer("a", "r1")
    log.join(peer)
    log.announce("model", 7, CHUNKS)
    log.have(peer, 7, bits(4))

    with gossiping(log):
        eventually(lambda: log.newest().get((7, "r1")), within_seconds=30)
        log.member(peer, MemberState.left)
        log.flush()
        rack = eventually(lambda: (found := log.newest()[7, "r1"]).hosts == 0 and found)

    assert not unpack(rack.bits, 40).any()


def test_garbage_is_counted_and_changes_nothing(log, eventually):
    peer = Peer("a", "r1")
    log.join(peer)
    log.announce("model", 7, CHUNKS)
    log.garbage(CAST_MANIFESTS, 0, b"7")
    partition = partition_of(b"r1", 64)
    before = metrics.GOSSIP_IGNORED.labels("unreadable")._value.get()
    unplaced = metrics.GOSSIP_IGNORED.labels("unplaced")._value.get()
    log.garbage(CAST_AVAILABILITY, partition, b"7/0")
    log.garbage(CAST_AVAILABILITY, partition, b"no number")
    log.have(peer, 7, bits(4)[:-9])
    log.have(Peer("stranger", "r1", number=99), 7, bits(5))
    log.have(Peer("a", "r1", number=peer.number), 7, bits(6))
    log.flush()

    with gossiping(log):
        rack = eventually(lambda: log.newest().get((7, "r1")), within_seconds=30)

    assert np.flatnonzero(unpack(rack.bits, 40)).tolist() == [6]
    assert metrics.GOSSIP_IGNORED.labels("unreadable")._value.get() - before == 2
    assert metrics.GOSSIP_IGNORED.labels("unplaced")._value.get() - unplaced == 1


def test_a_cast_is_shown_as_metrics_until_it_is_over_and_the_group_commits_what_it_read(log, eventually):
    a, b = Peer("a", "r1"), Peer("b", "r1")
    log.join(a, b)
    log.announce("shown", 7, CHUNKS)
    log.have(a, 7, bits(*range(20)), rate=MIB)
    log.flush()
    read = lambda metric, *labels: metric.labels(*labels)._value.get()  # noqa: E731

    with gossiping(log):
        eventually(lambda: ("shown", "r1") in metrics.CAST_BYTES._metrics, within_seconds=30)
        assert read(metrics.CAST_HOSTS, "shown", "r1", "there") == 2
        assert read(metrics.CAST_CHUNKS, "shown", "r1", "most") == 0.5
        assert 3_500 < read(metrics.CAST_LEFT_SECONDS, "shown") <= 3_600
        assert abs(metrics.GOSSIP_TIME._value.get() - time.time()) < 10
        log.event(a, 7, CastEventKind.blamed, b, "wrong bytes")
        log.flush()
        eventually(lambda: read(metrics.CAST_EVENTS, "shown", "blamed") == 1)
        eventually(lambda: [(one.members, one.records) for one in group_lags(log.kafka, time.time())] == [(1, 0)])
        log.manifest("shown", 7, ManifestKind.aborted, reason="enough")
        log.flush()
        eventually(lambda: ("shown", "r1") not in metrics.CAST_BYTES._metrics)
        assert ("shown",) not in metrics.CAST_LEFT_SECONDS._metrics


def test_a_cast_that_expires_is_summed_up_no_more(log, eventually):
    log.join(Peer("a", "r1"))
    log.announce("brief", 9, CHUNKS, expires_us=(time.time_ns() + 5_000_000_000) // 1_000)

    with gossiping(log):
        eventually(lambda: ("brief",) in metrics.CAST_LEFT_SECONDS._metrics, within_seconds=30)
        eventually(lambda: ("brief",) not in metrics.CAST_LEFT_SECONDS._metrics, within_seconds=30)
    assert {rack.epoch for rack in log.racks()} == {9}
