"""The origin's pace on a turned clock."""

from headwater.consumers.peer.swarm.offers import Offers
from headwater.rules.cast.fallback import ORIGIN_SLOTS

HOSTS = [("origin", 1, ""), *((f"h{rack}{host}", 1, f"r{rack}") for rack in range(3) for host in range(4))]
NONE = frozenset()


def made(count=100):
    offers = Offers(7, ("origin", 1))
    offers.place(HOSTS, NONE)
    offers.hashed(count)
    return offers


def test_no_more_is_offered_than_there_are_slots_and_each_chunk_to_one_host():
    told = made().act(NONE, ORIGIN_SLOTS, 0.0)

    assert [tell.chunk for tell in told] == list(range(ORIGIN_SLOTS))
    assert all(len(tell.hosts) == 1 for tell in told)


def test_a_cap_leaves_fewer_slots():
    assert len(made().act(NONE, 3, 0.0)) == 3


def test_a_chunk_that_was_taken_makes_room_for_the_next():
    offers = made()
    offers.act(NONE, ORIGIN_SLOTS, 0.0)

    offers.served(4, 0.1, whole=True)

    assert [tell.chunk for tell in offers.act(NONE, ORIGIN_SLOTS, 0.1)] == [ORIGIN_SLOTS]


def test_uploads_that_nobody_was_offered_take_slots_too():
    assert len(made().act(frozenset({90, 91}), ORIGIN_SLOTS, 0.0)) == ORIGIN_SLOTS - 2


def test_what_is_not_taken_in_time_is_offered_to_another_but_not_while_it_is_sent():
    offers = made(1)
    first = offers.act(NONE, ORIGIN_SLOTS, 0.0)[0].hosts

    assert offers.act(frozenset({0}), ORIGIN_SLOTS, 5.0) == []
    assert offers.act(NONE, ORIGIN_SLOTS, 5.5) == []
    again = offers.act(NONE, ORIGIN_SLOTS, 6.1)

    assert again[0].chunk == 0
    assert again[0].hosts != first


def test_the_offer_to_a_host_that_died_goes_on_at_once():
    offers = made(1)
    host = offers.act(NONE, ORIGIN_SLOTS, 0.0)[0].hosts[0]

    offers.gone((host, 1))
    offers.place([one for one in HOSTS if one[0] != host], NONE)

    assert offers.act(NONE, ORIGIN_SLOTS, 0.1)[0].hosts != (host,)


def test_what_nobody_ever_takes_is_left_alone_in_the_end():
    offers = made(1)

    told = [tell for second in range(60) for tell in offers.act(NONE, ORIGIN_SLOTS, 2.0 * second)]

    assert 6 <= len(told) <= 12
    assert offers.handed_out == 1
