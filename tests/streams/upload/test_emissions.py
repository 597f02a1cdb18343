"""Which parts of a batch belong to which claim."""

from __future__ import annotations

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from headwater.connectors.catalog.objects import Claim, Owner
from headwater.schemas.codec import encode
from headwater.schemas.records import FilePart
from headwater.streams.runtime.processor import Input
from headwater.streams.upload.emissions import PartInput, belonging, cut_otherwise

FILM = b"f" * 32
OWNER = Owner("fs.parts.here", 0, 1)


def part(index: int, count: int = 3, length: int = 10) -> FilePart:
    return FilePart(
        source="nas1",
        path=b"film",
        display="film",
        epoch=1,
        seq=1,
        hash=FILM,
        size=count * length,
        index=index,
        count=count,
        offset=index * length,
        length=length,
        part_hash=bytes([index, length]) * 16,
    )


def inputs(*parts: FilePart) -> list[PartInput]:
    return [
        PartInput(Input("fs.parts.here", Message(partition=0, offset=number, key=one.key(), value=encode(one))), one)
        for number, one in enumerate(parts)
    ]


def claim(parts: int = 3) -> Claim:
    return Claim(FILM, 2, 30, parts, "nas1", OWNER, "upload", resumed=True)


def test_parts_without_a_claim_belong_nowhere() -> None:
    assert belonging(inputs(part(1), part(2)), {}, opened_here=set()) == []


def test_parts_of_a_claim_from_an_earlier_batch_belong_to_it() -> None:
    rows = belonging(inputs(part(1), part(2)), {FILM: claim()}, opened_here=set())
    assert [(row.generation, row.index, row.first_byte, row.length) for row in rows] == [(2, 1, 10, 10), (2, 2, 20, 10)]


@given(before=st.lists(st.integers(1, 2), max_size=4), after=st.lists(st.integers(0, 2), max_size=4))
def test_of_a_claim_that_opens_here_only_what_follows_part_0_belongs(before: list[int], after: list[int]) -> None:
    batch = inputs(*(part(index) for index in [*before, 0, *after]))
    rows = belonging(batch, {FILM: claim()}, opened_here={FILM})
    assert [row.index for row in rows] == [0, *after]


def test_parts_of_another_count_of_cuts_do_not_belong() -> None:
    assert belonging(inputs(part(0, count=2)), {FILM: claim(parts=3)}, opened_here=set()) == []


def test_a_claim_is_superseded_by_an_emission_of_other_cuts_only() -> None:
    known = {(FILM, 2): belonging(inputs(part(0)), {FILM: claim()}, opened_here=set())[0]}
    assert cut_otherwise([claim()], {}, known) == [], "no emission begins here"
    assert cut_otherwise([claim()], {FILM: part(0)}, known) == []
    assert cut_otherwise([claim()], {FILM: part(0)}, {}) == [], "no part of it was known yet"
    assert cut_otherwise([claim()], {FILM: part(0, length=15)}, known) == [claim()]
    assert cut_otherwise([claim()], {FILM: part(0, count=2)}, known) == [claim()]
