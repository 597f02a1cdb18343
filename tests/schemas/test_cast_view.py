"""The view of the peers: the newest incarnation, its last word, whatever order the partitions are read in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.schemas.cast_records import CastMember, MemberState
from headwater.schemas.cast_view import Entry, View

JOINED, LEFT, SUSPECTED = MemberState.joined, MemberState.left, MemberState.suspected
PARTITIONS = {"r1": 3, "r2": 7, "": 5}


def said(host: str, state: MemberState, offset: int, *, incarnation: int = 1, rack: str = "r1") -> Entry:
    record = CastMember(
        host=host, incarnation=incarnation, rack=rack, address="127.0.0.1:1", state=state, said_by=host, reason="",
        at_us=0,
    )  # fmt: skip
    return record, PARTITIONS[rack], offset


def live(view: View) -> dict[str, list[str]]:
    return {rack: [host.name for host in hosts] for rack, hosts in view.racks.items()}


def test_hosts_that_joined_are_live_in_their_rack() -> None:
    view = View.of([said("b", JOINED, 0), said("a", JOINED, 1), said("c", JOINED, 0, rack="r2"), said("d", LEFT, 2)])

    assert live(view) == {"r1": ["a", "b"], "r2": ["c"]}
    assert view.numbers == {3: 2, 7: 0}


def test_who_left_or_is_suspected_is_not_live_until_it_joins_again() -> None:
    view = View.of([said("a", JOINED, 0), said("b", JOINED, 1), said("a", LEFT, 2), said("b", SUSPECTED, 3)])
    assert live(view) == {}

    again = view.after([said("b", JOINED, 4)])
    assert live(again) == {"r1": ["b"]}
    assert again.hosts["b"].number == 4


def test_what_is_said_of_an_older_incarnation_changes_nothing() -> None:
    view = View.of([said("a", JOINED, 0), said("a", JOINED, 1, incarnation=2)])

    after = view.after([said("a", SUSPECTED, 2), said("a", LEFT, 3), said("a", JOINED, 4)])

    assert after.hosts == view.hosts
    assert after.hosts["a"].incarnation == 2
    assert after.numbers == {3: 4}


def test_a_host_that_moved_is_in_its_new_rack_in_whatever_order_the_partitions_are_read() -> None:
    old, new = said("a", JOINED, 9), said("a", JOINED, 0, incarnation=2, rack="r2")

    assert live(View.of([old, new])) == live(View.of([new, old])) == {"r2": ["a"]}


def test_a_number_means_the_host_that_joined_at_it() -> None:
    view = View.of([said("a", JOINED, 0), said("b", JOINED, 1), said("a", SUSPECTED, 2)])

    assert view.numbered(3, 0) == view.hosts["a"]
    assert view.numbered(3, 1) == view.hosts["b"]
    assert view.numbered(7, 0) is view.numbered(3, 2) is None


def test_what_compaction_left_of_a_suspected_host_names_it_without_a_number() -> None:
    host = View.of([said("a", SUSPECTED, 8)]).hosts["a"]

    assert (host.rack, host.number, host.live) == ("r1", None, False)


def test_a_state_of_a_newer_release_changes_nothing() -> None:
    view = View.of([said("a", JOINED, 0), said("a", MemberState.unknown, 1)])

    assert live(view) == {"r1": ["a"]}


words = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([JOINED, LEFT, SUSPECTED]), st.integers(0, 3)), max_size=30
)


@given(words, st.randoms(use_true_random=False))
def test_the_view_is_the_same_however_the_partitions_interleave_and_whatever_is_read_twice(words, chance) -> None:  # type: ignore[no-untyped-def]
    queues: dict[str, list[Entry]] = {rack: [] for rack in PARTITIONS}
    for name, state, incarnation in words:
        rack = sorted(PARTITIONS)[(ord(name) + incarnation) % 3]  # the rack belongs to the incarnation
        queues[rack].append(said(name, state, len(queues[rack]), incarnation=incarnation, rack=rack))
    straight = View.of([entry for queue in queues.values() for entry in queue])

    mixed, left = View(), {rack: list(queue) for rack, queue in queues.items() if queue}
    while left:
        rack = chance.choice(sorted(left))
        size = chance.randint(1, len(left[rack]))
        mixed = mixed.after(left[rack][:size]).after(queues[rack][:1])
        left[rack] = left[rack][size:]
        if not left[rack]:
            del left[rack]

    assert mixed == straight
