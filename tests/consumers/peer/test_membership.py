"""Who is there, who is missed, and what is said of it."""

import pytest

from headwater.consumers.peer.membership import Membership
from headwater.rules.errors import Fenced
from headwater.schemas.cast_records import CastMember, MemberState


def member(host, incarnation=1, rack="r0", state=MemberState.joined, only=None):
    return CastMember(
        host=host,
        incarnation=incarnation,
        rack=rack,
        address=f"{host}:1",
        state=state,
        only=only,
        said_by=host,
        reason="",
        at_us=0,
    )


class Words:
    """What would go to the log."""

    def __init__(self):
        self.said = []

    def say(self, record, rack=None, said=None):
        self.said.append((record, rack))
        if said is not None:
            said(41)


@pytest.fixture
def words():
    return Words()


@pytest.fixture
def membership(words):
    made = Membership(member("me"), words, lambda: 0.5)
    made.read([(member("me"), 3, 0), (member("mate"), 3, 1), (member("far", rack="r1"), 5, 0)])
    return made


def test_a_peer_is_numbered_by_the_offset_of_its_word(membership, words):
    membership.join()

    assert membership.number == 41
    assert words.said[0][1] == "r0"


def test_who_is_missed_is_suspected_after_a_while_in_the_partition_of_its_rack(membership, words):
    membership.missed(("far", 1), 10.0)
    assert membership.say_missed(11.0) == []

    assert membership.say_missed(11.6) == [("far", 1)]

    record, rack = words.said[-1]
    assert (record.host, record.incarnation, record.state, record.said_by) == ("far", 1, MemberState.suspected, "me")
    assert rack == record.rack == "r1"


def test_who_speaks_again_or_said_that_it_left_is_not_suspected(membership, words):
    membership.missed(("far", 1), 10.0)
    membership.missed(("mate", 1), 10.0)
    membership.found(("far", 1))
    membership.read([(member("mate", state=MemberState.left), 3, 2)])

    assert membership.say_missed(20.0) == []
    assert words.said == []


def test_a_peer_that_is_suspected_and_lives_says_so(membership, words):
    membership.read([(member("me", state=MemberState.suspected), 3, 2)])

    assert [record.state for record, _ in words.said] == [MemberState.joined]


def test_what_is_said_of_an_older_incarnation_changes_nothing(membership, words):
    membership.read([(member("me", incarnation=0, state=MemberState.suspected), 3, 2)])

    assert words.said == []


def test_a_newer_peer_of_the_same_name_ends_this_one(membership):
    with pytest.raises(Fenced, match="another peer named me"):
        membership.read([(member("me", incarnation=2), 3, 2)])


def test_rack_mates_are_those_of_the_rack_that_receive_and_share_a_cast(words):
    membership = Membership(member("me", only="weights"), words, lambda: 0.0)
    membership.read([
        (member("me", only="weights"), 3, 0),
        (member("mate"), 3, 1),
        (member("same", only="weights"), 3, 2),
        (member("other", only="logs"), 3, 3),
        (member("me/17"), 3, 4),
        (member("far", rack="r1"), 5, 0),
    ])  # fmt: skip

    assert set(membership.rack_mates()) == {"mate", "same"}
