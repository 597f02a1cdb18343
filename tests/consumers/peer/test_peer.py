"""Peers on this machine's loopback, with a real log: what arrives, what does not, and who is told."""

from contextlib import ExitStack

import pytest

from headwater.consumers.peer.links.links import Stood
from headwater.rules.errors import BadSettings, Fenced
from headwater.schemas.cast_records import CastEventKind, CastState, ManifestKind, MemberState
from headwater.schemas.topics import CAST_EVENTS, CAST_MEMBERS, CAST_PROGRESS

MIB = 1024 * 1024


@pytest.fixture
def fleet():
    """Starts peers; all end with the test."""
    with ExitStack() as running:
        yield running.enter_context


def partials(peer):
    """What is not whole in its folder."""
    return [*(peer.folder.path / ".headwater-cast").glob("*.partial")]


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


def test_a_limit_that_was_said_before_a_peer_began_holds(fleet, told, origin_of, peer_of, eventually):
    cast = told(8 * MIB)
    cast.all()
    cast.say(ManifestKind.limited, bytes_per_second=2 * MIB)
    fleet(origin_of(cast))

    late = fleet(peer_of("late"))

    eventually(lambda: phase(late) == "installed", within_seconds=30)
    assert late.casts()[0].seconds > 2.5, "8 MiB at 2 MiB a second, the first pieces of which may come at once"


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

    said = records(CAST_MEMBERS)
    assert {(record.host, record.rack) for record in said} == {("h0", "r7")}
    assert (said[0].state, said[-1].state) == (MemberState.joined, MemberState.left)


def test_a_peer_without_a_key_says_how_to_make_one(peer_of):
    with pytest.raises(BadSettings, match=r"peer\.key is not set") as refused:
        peer_of("h0", key=None)

    assert "openssl rand -hex 32" in refused.value.advice


def test_a_cast_for_others_is_not_received(fleet, told, origin_of, peer_of, eventually):
    cast = told()
    named, by_rack, other = fleet(peer_of("named")), fleet(peer_of("a", rack="r9")), fleet(peer_of("other"))
    fleet(origin_of(cast))

    cast.all(targets=("named", "rack:r9"))

    eventually(lambda: phase(named) == phase(by_rack) == "installed", within_seconds=30)
    assert other.casts() == []
    assert other.newest("weights").epoch == cast.epoch


@pytest.mark.parametrize("kind", [ManifestKind.aborted, ManifestKind.removed])
def test_what_is_not_whole_goes_when_its_cast_ends(kind, fleet, told, peer_of, records, eventually):
    cast = told()
    peer = fleet(peer_of("h0"))
    cast.announce()
    cast.hash()
    eventually(lambda: phase(peer) == "receiving", within_seconds=20)

    cast.say(kind, reason="the wrong file")

    eventually(lambda: phase(peer) == "failed")
    assert "the wrong file" in peer.casts()[0].reason
    eventually(lambda: not partials(peer))
    assert not peer.casts()[0].path.exists()
    said = eventually(lambda: [one for one in records(CAST_PROGRESS) if one.state is CastState.failed])
    assert "the wrong file" in said[0].reason


def test_a_wrong_root_leaves_no_file(fleet, told, origin_of, peer_of, eventually):
    cast = told()
    peer = fleet(peer_of("h0"))
    fleet(origin_of(cast))
    cast.announce()
    cast.hash()

    cast.say(ManifestKind.sealed, root=bytes(32))

    eventually(lambda: phase(peer) == "failed", within_seconds=20)
    assert "root" in peer.casts()[0].reason
    assert not peer.casts()[0].path.exists()
    eventually(lambda: not partials(peer))


def test_a_newer_cast_of_the_name_replaces_one_that_is_not_whole(fleet, told, origin_of, peer_of, eventually):
    older, newer = told(epoch=7), told(epoch=8)
    peer = fleet(peer_of("h0"))
    older.announce()
    older.hash()
    eventually(lambda: phase(peer) == "receiving", within_seconds=20)

    fleet(origin_of(newer))
    newer.all()

    eventually(lambda: phase(peer) == "installed", within_seconds=30)
    assert [(one.epoch, one.phase) for one in peer.casts()] == [(7, "failed"), (8, "installed")]
    assert peer.casts()[1].path.read_bytes() == newer.content


def test_a_cast_that_expires_fails_and_names_what_is_missing(fleet, told, peer_of, records, eventually):
    cast = told()
    peer = fleet(peer_of("h0"))
    eventually(lambda: peer.ready, within_seconds=20)

    cast.announce(seconds=3.0)
    cast.hash()

    eventually(lambda: phase(peer) == "failed", within_seconds=20)
    assert peer.casts()[0].missing == tuple(range(8))
    missing = eventually(lambda: [one for one in records(CAST_EVENTS) if one.kind is CastEventKind.missing])
    assert missing[0].chunks == tuple(range(8))


def test_a_peer_that_starts_again_downloads_nothing_that_is_here(fleet, told, origin_of, peer_of, eventually):
    cast = told(16 * MIB)
    cast.announce()
    cast.hash()
    with origin_of(cast), peer_of("h0") as peer:
        eventually(lambda: peer.casts() and peer.casts()[0].had == 16, within_seconds=30)
    fleet(origin_of(cast))

    again = fleet(peer_of("h0"))
    eventually(lambda: phase(again) == "complete", within_seconds=30)
    cast.seal()

    eventually(lambda: phase(again) == "installed", within_seconds=30)
    assert again.casts()[0].received_bytes == 0
    assert again.casts()[0].path.read_bytes() == cast.content


def test_a_peer_that_starts_again_serves_what_it_installed(fleet, told, origin_of, peer_of, eventually):
    cast = told(16 * MIB)
    with origin_of(cast), peer_of("early") as early:
        cast.all()
        eventually(lambda: phase(early) == "installed", within_seconds=30)

    again = fleet(peer_of("early"))
    late = fleet(peer_of("late"))

    eventually(lambda: phase(late) == "installed", within_seconds=30)
    assert late.casts()[0].path.read_bytes() == cast.content
    assert again.casts()[0].received_bytes == 0


def test_what_was_changed_since_it_was_installed_is_served_to_nobody(fleet, told, origin_of, peer_of, eventually):
    cast = told(4 * MIB)
    with origin_of(cast), peer_of("early") as early:
        cast.all()
        eventually(lambda: phase(early) == "installed", within_seconds=30)
        path = early.casts()[0].path
    with path.open("r+b") as installed:
        installed.seek(2 * MIB)
        installed.write(b"edited")

    again = fleet(peer_of("early"))

    eventually(lambda: phase(again) == "installed", within_seconds=30)
    assert again.casts()[0].served_out
    assert path.read_bytes()[2 * MIB :].startswith(b"edited")


def test_a_second_peer_of_the_same_name_ends_the_first(fleet, peer_of, eventually):
    first = fleet(peer_of("h0"))
    eventually(lambda: first.ready, within_seconds=20)

    fleet(peer_of("h0"))

    eventually(lambda: isinstance(first.failure, Fenced), within_seconds=20)
    assert "another peer named h0" in str(first.failure)


def test_a_source_that_changes_while_it_is_cast_is_served_no_longer(
    fleet, told, origin_of, peer_of, records, eventually
):
    cast = told()
    fleet(origin_of(cast))
    with cast.path.open("r+b") as source:
        source.write(b"other bytes")
    peer = fleet(peer_of("h0"))

    cast.announce()
    cast.hash()

    changed = eventually(
        lambda: [one for one in records(CAST_EVENTS) if one.kind is CastEventKind.source_changed], within_seconds=20
    )
    assert "changed" in changed[0].reason
    assert peer.casts()[0].had == 0


def test_a_poisoned_mate_is_blamed_and_the_chunk_fetched_elsewhere(
    fleet, told, origin_of, peer_of, records, eventually
):
    cast = told(16 * MIB)
    liar = fleet(peer_of("liar"))
    fleet(origin_of(cast))
    cast.announce()
    cast.hash()
    eventually(lambda: liar.casts() and liar.casts()[0].had == 16, within_seconds=30)
    (partial,) = partials(liar)
    with partial.open("r+b") as held:
        held.seek(5 * MIB + 17)
        held.write(b"poison")

    honest = fleet(peer_of("honest"))
    cast.seal()

    eventually(lambda: phase(honest) == "installed", within_seconds=30)
    assert honest.casts()[0].path.read_bytes() == cast.content
    blamed = eventually(lambda: [one for one in records(CAST_EVENTS) if one.kind is CastEventKind.blamed])
    assert {(one.host, one.about_host) for one in blamed} == {("honest", "liar")}
    assert blamed[0].chunks == (5,)


def test_who_comes_when_everything_was_handed_out_and_everybody_left_is_served_at_once(
    fleet, told, origin_of, peer_of, eventually
):
    cast = told(48 * MIB)
    fleet(origin_of(cast))
    with peer_of("early") as early:
        cast.all()
        eventually(lambda: phase(early) == "installed", within_seconds=30)

    late = fleet(peer_of("late"))

    eventually(lambda: phase(late) == "installed", within_seconds=40)
    one_after_the_other = 48 / 4 * 6 * 0.15  # four imports at a time, each batch after six deadlines of silence
    assert late.casts()[0].seconds < one_after_the_other


def test_a_peer_that_stood_still_begins_anew_and_goes_on(fleet, told, origin_of, peer_of, records, eventually):
    cast = told(16 * MIB)
    peer, mate = fleet(peer_of("h0")), fleet(peer_of("h1"))
    fleet(origin_of(cast))
    cast.announce()
    cast.hash()
    eventually(lambda: peer.casts() and peer.casts()[0].had > 0, within_seconds=30)
    before = peer.who

    peer._queue.put(Stood(5.0))  # as its links say after a SIGSTOP: tests/cast stops real processes

    eventually(lambda: peer.who[1] > before[1])
    cast.seal()
    eventually(lambda: phase(peer) == phase(mate) == "installed", within_seconds=40)
    joined = [one.incarnation for one in records(CAST_MEMBERS) if one.host == "h0" and one.state is MemberState.joined]
    assert joined[-1] == peer.who[1]
    assert peer.casts()[0].path.read_bytes() == cast.content
