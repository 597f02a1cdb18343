"""One cast's fold: what is said twice, late or by an older start of a peer changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cast.bitmap import pack, unpack
from headwater.rules.cast.chunks import Chunks
from headwater.rules.errors import BadRecord
from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import CastAvailability, CastProgress, CastRack, CastState, MemberState
from headwater.schemas.cast_view import Host, View
from headwater.streams.gossip.cast import SILENT_US, CastFold, RackHosts, racks_of

MIB = 1024 * 1024
CHUNKS = Chunks(16 * MIB, MIB)
MANIFEST = Manifest(
    name="model", epoch=7, file_name="m", chunks=CHUNKS, mtime_ns=0, origin="origin", targets=(), expires_us=10**15
)
SECOND = 1_000_000


def host(name: str, incarnation: int = 1, state: MemberState = MemberState.joined, rack: str = "r") -> Host:
    return Host(name, rack, "127.0.0.1:1", incarnation, 3, 0, None, state)


A, B = host("a"), host("b")


def word(sequence: int, had: set[int], base: int | None = None, incarnation: int = 1, rate: int = 0, total: int = -1):
    bits = np.zeros(CHUNKS.count, np.bool_)
    bits[list(had)] = True
    return CastAvailability(
        epoch=7, number=0, incarnation=incarnation, sequence=sequence, base=base, bits=pack(bits),
        chunks=len(had) if total < 0 else total, bytes_per_second=rate,
    )  # fmt: skip


def step(name: str, state: CastState, incarnation: int = 1) -> CastProgress:
    return CastProgress(
        epoch=7, name="model", host=name, incarnation=incarnation, rack="r", state=state, chunks=0, received_bytes=0,
        outside_bytes=0, seconds=0.0, reason="", at_us=0,
    )  # fmt: skip


def summary(fold: CastFold, *live: Host, at: float = 0.0, suspected: tuple[str, ...] = ()) -> CastRack:
    hosts = RackHosts(3, live, suspected)
    return fold.summary("r", hosts, at_us=int(at * SECOND), joined_us={}, number=5)


def had(rack: CastRack) -> set[int]:
    return set(np.flatnonzero(unpack(rack.bits, CHUNKS.count)).tolist())


@given(st.lists(st.tuples(st.sets(st.integers(0, 15)), st.booleans()), min_size=1, max_size=12), st.data())
def test_whatever_is_said_twice_or_late_the_newest_word_stands(script, data) -> None:  # type: ignore[no-untyped-def]
    words, so_far = [], set()
    for sequence, (new, full) in enumerate(script):
        before, so_far = set(so_far), so_far | new
        said = so_far if full or sequence == 0 else new - before
        words.append(word(sequence, said, None if full or sequence == 0 else sequence - 1, total=len(so_far)))
    fold = CastFold(MANIFEST, 0)
    for at, said in enumerate(words):
        fold.hear(A, said, at)
        for again in data.draw(st.lists(st.sampled_from(words[: at + 1]), max_size=2)):
            fold.hear(A, again, at)

    rack = summary(fold, A)
    assert had(rack) == so_far
    assert rack.most == len(so_far)


def test_a_difference_without_its_base_says_what_it_says_until_a_full_word_comes() -> None:
    fold = CastFold(MANIFEST, 0)
    fold.hear(A, word(5, {9}, base=4, total=10), 0)
    assert (had(summary(fold, A)), summary(fold, A).most) == ({9}, 10)

    fold.hear(A, word(10, set(range(10))), 0)
    assert had(summary(fold, A)) == set(range(10))


def test_a_new_start_of_a_peer_begins_with_nothing_and_the_old_one_is_not_heard() -> None:
    fold = CastFold(MANIFEST, 0)
    fold.hear(A, word(9, {1, 2, 3}), 0)
    new = host("a", incarnation=2)
    assert had(summary(fold, new)) == set()

    fold.hear(new, word(0, {4}, incarnation=2), 0)
    fold.hear(new, word(10, {1, 2, 3, 5}), 0)
    assert (had(summary(fold, new)), summary(fold, new).most) == ({4}, 1)


def test_who_installed_the_file_has_it_whatever_its_new_start_has_said() -> None:
    fold = CastFold(MANIFEST, 0)
    fold.step(step("a", CastState.complete))
    fold.step(step("b", CastState.installed))
    fold.step(step("b", CastState.left))
    rack = summary(fold, host("a", incarnation=2), host("b", incarnation=2))

    assert (rack.complete, rack.installed, rack.least, rack.most) == (1, 1, 0, 16)
    assert had(rack) == set(range(16))


def test_the_middle_of_a_rack_is_the_lower_one() -> None:
    fold = CastFold(MANIFEST, 0)
    hosts = [host(name) for name in "abcd"]
    for at, one in enumerate(hosts):
        fold.hear(one, word(0, set(range(at))), 0)

    rack = summary(fold, *hosts)
    assert (rack.least, rack.median, rack.most) == (0, 1, 3)
    assert summary(fold).hosts == summary(fold).most == 0


def test_silence_counts_from_the_last_word_the_join_or_the_announcement() -> None:
    fold = CastFold(MANIFEST, 10 * SECOND)
    fold.hear(A, word(0, {1}), 12 * SECOND)
    assert summary(fold, A, B, at=13).silent == ()
    assert summary(fold, A, B, at=13.1).silent == ("b",)
    assert summary(fold, A, B, at=15.1, suspected=("z",)).silent == ("a", "b", "z")

    late = fold.summary("r", RackHosts(3, (B,), ()), at_us=15 * SECOND, joined_us={"b": 14 * SECOND}, number=0)
    assert late.silent == ()
    assert SILENT_US == 3 * SECOND


@pytest.mark.parametrize("state", [CastState.refused, CastState.failed, CastState.left])
def test_who_gave_up_is_not_silent(state: CastState) -> None:
    fold = CastFold(MANIFEST, 0)
    fold.step(step("b", state))

    assert summary(fold, A, B, at=100).silent == ("a",)


def test_rates_are_the_present_ones() -> None:
    fold = CastFold(MANIFEST, 0)
    fold.hear(A, word(0, {1}, rate=100), 1 * SECOND)
    fold.hear(B, word(0, {1}, rate=10), 3 * SECOND)

    assert summary(fold, A, B, at=3).bytes_per_second == 110
    assert summary(fold, A, B, at=3.5).bytes_per_second == 10


def test_a_rack_is_judged_by_words_of_the_whole_window_only() -> None:
    fold = CastFold(MANIFEST, 0)
    fleet = [host(name) for name in "abc"]
    for second in range(5):
        for one in fleet:
            rate = MIB // 2 if one.name == "c" else 4 * MIB
            fold.hear(one, word(second, {second}, rate=rate), second * SECOND)
        assert summary(fold, *fleet, at=second).slow == (("c",) if second == 4 else ())
    assert summary(fold, *fleet, at=20).slow == ()


def test_bits_of_another_length_are_refused() -> None:
    wrong = CastFold(MANIFEST, 0)
    long = CastAvailability(
        epoch=7, number=0, incarnation=1, sequence=0, bits=pack(np.ones(99, np.bool_)), chunks=9, bytes_per_second=0
    )
    with pytest.raises(BadRecord):
        wrong.hear(A, long, 0)


def test_racks_hold_the_named_hosts_that_are_there_or_suspected() -> None:
    suspected, left = host("s", state=MemberState.suspected), host("l", state=MemberState.left)
    unlabelled, origin = host("u", rack=""), host("origin")
    view = View({one.name: one for one in (B, A, suspected, left, unlabelled, origin)}, {3: 5})

    assert racks_of(view, MANIFEST) == {"r": RackHosts(3, (A, B), ("s",)), "": RackHosts(3, (unlabelled,), ())}
