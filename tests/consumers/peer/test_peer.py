"""Peers on this machine's loopback, with a real log: what arrives, what does not, and who is told."""

from contextlib import ExitStack

import pytest

from headwater.rules.errors import BadSettings
from headwater.schemas.cast_records import CastState, MemberState
from headwater.schemas.topics import CAST_MEMBERS, CAST_PROGRESS

MIB = 1024 * 1024


@pytest.fixture
def fleet():
    """Starts peers; all end with the test."""
    with ExitStack() as running:
        yield running.enter_context


def phase(peer):
    return peer.casts()[-1].phase if peer.casts() else None


def test_a_file_reaches_every_host_of_two_racks_whole(fleet, told, origin_of, peer_of, records, eventually):
    cast = told(24 * MIB + 17)
    peers = [fleet(peer_of(f"h{at}", rack=f"r{at % 2}")) for at in range(4)]
    fleet(origin_of(cast))

    cast.all()

    eventually(lambda: all(phase(peer) == "installed" for peer in peers), within_seconds=30)
    for peer in peers:
        assert peer.casts()[0].path.read_bytes() == cast.content
    said = [record for record in records(CAST_PROGRESS) if record.state is CastState.installed]
    assert {record.host for record in said} == {"h0", "h1", "h2", "h3"}
    assert {record.root for record in said} == {cast.root}


def test_who_was_here_all_along_and_who_comes_later_have_the_same_file(fleet, told, origin_of, peer_of, eventually):
    cast = told()
    early = fleet(peer_of("early"))
    fleet(origin_of(cast))
    cast.all()
    eventually(lambda: phase(early) == "installed", within_seconds=30)

    late = fleet(peer_of("late"))

    eventually(lambda: phase(late) == "installed", within_seconds=30)
    assert late.casts()[0].path.read_bytes() == cast.content


@pytest.mark.parametrize("size", [0, 1, MIB, MIB + 1])
def test_a_file_of_any_size_arrives(size, fleet, told, origin_of, peer_of, eventually):
    cast = told(size)
    peer = fleet(peer_of("h0"))
    fleet(origin_of(cast))

    cast.all()

    eventually(lambda: phase(peer) == "installed", within_seconds=30)
    assert peer.casts()[0].path.read_bytes() == cast.content


def test_nobody_is_discoverable_before_it_answers_and_each_says_when_it_ends(peer_of, records):
    with peer_of("h0", rack="r7"):
        pass

    said = [(record.host, record.rack, record.state) for record in records(CAST_MEMBERS)]
    assert said == [("h0", "r7", MemberState.joined), ("h0", "r7", MemberState.left)]


def test_a_peer_without_a_key_says_how_to_make_one(peer_of):
    with pytest.raises(BadSettings, match=r"peer\.key is not set") as refused:
        peer_of("h0", key=None)

    assert "openssl rand -hex 32" in refused.value.advice
