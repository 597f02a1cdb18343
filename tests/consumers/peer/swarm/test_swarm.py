"""The decisions of a whole fleet on a turned clock: what each of them asks, tells and gives up, whatever happens."""

import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.consumers.peer.bytes.fetch import COPY, Outcome
from headwater.consumers.peer.swarm.actions import Ask
from headwater.consumers.peer.swarm.swarm import Swarm
from headwater.schemas.cast_records import CastEventKind

sys.path.insert(0, str(Path(__file__).parent))
from world import CHUNK, DETECTED, ORIGIN, World  # beside the tests, where no package is


def racks(count, hosts):
    return {f"r{rack}": [f"h{rack}-{host}" for host in range(hosts)] for rack in range(count)}


def finish(world, but=()):
    return max(at for host, at in world.finished.items() if host not in but)


@cache
def quiet_fleet():
    """The same fleet without any fault, to compare with."""
    world = World(racks(3, 4), 80)
    world.run(60)
    return world


def test_each_chunk_leaves_the_origin_and_enters_each_rack_about_once():
    world = quiet_fleet()

    assert world.of_origin() <= 1.02
    assert all(world.copies_into(rack) <= 1.02 for rack in world.racks)


def test_hosts_without_a_rack_are_one_rack():
    world = World({"": [f"h{host}" for host in range(12)]}, 100)

    world.run(60)

    assert world.of_origin() <= 1.02


def test_a_storm_of_joiners_is_told_nothing_until_it_is_their_turn():
    world = World(racks(8, 6), 24)

    world.run(60)

    assert world.of_origin() <= 1.02
    assert not [note for _, _, note in world.notes if note.kind is CastEventKind.stalled]
    firsts = sorted(world.first_byte.values())
    assert firsts[int(0.99 * len(firsts))] < 0.5


def test_hosts_that_die_cost_the_others_little_more_than_their_discovery():
    world = World(racks(3, 4), 80)
    for host in ("h0-0", "h1-3", "h2-2"):
        world.at(0.1, world.kill, host)

    world.run(60)

    assert finish(world) <= quiet_fleet().now + DETECTED + 0.5
    assert not [one for at, one in world.asks if at > 0.1 + DETECTED and one.source[0] in world.dead]


def test_a_source_that_hangs_is_left_within_a_second_and_named():
    world = World(racks(1, 6), 60, black_holes={"h0-2"})

    world.run(60)

    named = [(at, note) for at, _, note in world.notes if note.about == ("h0-2", 1)]
    assert min(at for at, _ in named) < 1.0
    assert {CastEventKind.hedged, CastEventKind.stalled} & {note.kind for _, note in named}
    assert all(note.chunks for _, note in named)


def test_a_poisoned_peer_is_blamed_and_asked_by_nobody_twice():
    world = World(racks(3, 4), 80, poisoners={"h1-1"})

    world.run(60)

    blamed = [note for _, _, note in world.notes if note.kind is CastEventKind.blamed]
    assert {note.about for note in blamed} == {("h1-1", 1)}
    bad = [host for host, source, _ in world.received if source == "h1-1"]
    in_flight_at_once = 3
    assert all(bad.count(host) <= in_flight_at_once for host in bad)
    assert finish(world) <= 1.5 * quiet_fleet().now


def test_when_the_origin_dies_the_rest_comes_from_the_copy_and_enters_each_rack_about_once():
    world = World(racks(3, 4), 80, copied=True)
    world.at(0.1, world.kill, ORIGIN)

    world.run(60)

    assert COPY in {source for _, source, _ in world.received}
    assert all(world.copies_into(rack) <= 1.2 for rack in world.racks)


def test_a_cast_that_nobody_can_complete_says_so_and_names_the_chunks():
    world = World(racks(2, 3), 150)
    world.at(0.1, world.kill, ORIGIN)

    with pytest.raises(AssertionError, match="missing"):
        world.run(15)

    stalls = [note for _, _, note in world.notes if note.kind is CastEventKind.stalled and note.about is None]
    swarm = world.swarms["h0-0"]
    assert stalls
    assert "nobody who answers has them" in stalls[-1].reason
    assert set(stalls[-1].chunks) <= set(swarm.missing())


def test_a_slow_source_holds_up_nobody_but_itself():
    world = World(racks(3, 4), 80, slow={"h0-0": 8.0})

    world.run(60)

    assert finish(world) <= quiet_fleet().now + 1.0


def test_a_slow_host_imports_nothing_for_its_rack():
    swarm = Swarm(7, ("h0", 1), "r", ORIGIN, 50, slots=8, chance=lambda: 0.0, now=0.0)

    swarm.place([("h0", 1, "r"), ("h1", 1, "r"), ("h2", 1, "r"), (ORIGIN, 1, "")], frozenset({"h1"}), 0.0)

    assert swarm.tree.racks == {"r": ("h0", "h2")}


def test_a_slow_host_holds_few_places_of_its_sources():
    swarm = Swarm(7, ("h0", 1), "r0", ORIGIN, 40, slots=24, chance=lambda: 0.5, now=0.0)
    hosts = [(ORIGIN, 1, ""), *((f"h{host}", 1, "r0") for host in range(6))]
    swarm.hashed(40)
    for slow, most in ((frozenset(), 8), (frozenset({"h0"}), 3)):
        swarm.place(hosts, slow, 0.0)
        for host, _, _ in hosts[2:]:
            swarm.told((host, 1), range(40), 0.0)

        asks = [action.flight for action in swarm.act(1.0) if isinstance(action, Ask)]

        assert len(asks) == most
        for flight in asks:
            swarm.ended(flight, Outcome.verified, 0.1, "", 1.0)


def test_what_is_here_from_an_earlier_run_is_not_asked_for_again():
    world = World(racks(1, 2), 40)
    for chunk in range(30):
        world.swarms["h0-0"].restore(chunk)

    world.run(60)

    assert not [one for one in world.received if one[0] == "h0-0" and one[2] < 30]


def test_at_the_end_a_chunk_is_asked_of_a_second_source():
    swarm = Swarm(7, ("me", 1), "r", ORIGIN, 1, slots=8, chance=lambda: 0.0, now=0.0)
    swarm.place([("me", 1, "r"), ("a", 1, "r"), ("b", 1, "r"), (ORIGIN, 1, "")], frozenset(), 0.0)
    swarm.hashed(1)
    for mate in ("a", "b"):
        swarm.told((mate, 1), [0], 0.0)

    first = [action.flight for action in swarm.act(0.0) if isinstance(action, Ask)]

    assert [flight.source[0] for flight in first] in (["a"], ["b"], ["a", "b"], ["b", "a"])
    swarm.ended(first[0], Outcome.verified, CHUNK, "", 0.1)
    assert swarm.complete


def test_a_rack_is_complete_when_every_mate_has_everything():
    swarm = Swarm(7, ("me", 1), "r", ORIGIN, 2, slots=8, chance=lambda: 0.0, now=0.0)
    swarm.place([("me", 1, "r"), ("a", 1, "r"), ("far", 1, "s"), (ORIGIN, 1, "r")], frozenset(), 0.0)
    for chunk in (0, 1):
        swarm.restore(chunk)
        assert not swarm.rack_complete

    swarm.told(("a", 1), [0, 1], 0.0)

    assert swarm.rack_complete


faults = st.fixed_dictionaries({
    "seed": st.integers(0, 10_000),
    "hosts": st.lists(st.integers(1, 4), min_size=1, max_size=3),
    "count": st.integers(1, 30),
    "deaths": st.lists(st.tuples(st.floats(0.0, 0.5), st.integers(0, 20)), max_size=3),
    "holes": st.sets(st.integers(0, 20), max_size=2),
    "poisoners": st.sets(st.integers(0, 20), max_size=2),
    "origin_dies": st.booleans(),
})  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(faults)
def test_whatever_happens_all_who_live_get_everything_from_somebody_who_can_be_trusted(drawn):
    """Beside the end: at most two requests for a chunk at a time and none to a quarantined source, which the world
    itself asserts at each step."""
    fleet = {f"r{at}": [f"h{at}-{host}" for host in range(hosts)] for at, hosts in enumerate(drawn["hosts"])}
    hosts = [host for rack in fleet.values() for host in rack]

    def some(numbers):
        return {hosts[number % len(hosts)] for number in numbers}

    world = World(
        fleet,
        drawn["count"],
        seed=drawn["seed"],
        copied=True,
        black_holes=some(drawn["holes"]),
        poisoners=some(drawn["poisoners"]),
    )
    for at, number in drawn["deaths"]:
        world.at(at, world.kill, hosts[number % len(hosts)])
    if drawn["origin_dies"]:
        world.at(0.05, world.kill, ORIGIN)

    world.run(120)

    once = [(host, chunk) for host, source, chunk in world.received if source not in world.poisoners]
    assert len(once) <= 1.5 * len(set(once)) + 4
