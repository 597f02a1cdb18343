"""The plan of faults: every kind comes, a seed repeats it, and it explains only the exits that its faults cause."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from inflicted import Fault, Inflicted
from jobs.faults import DECK, KINDS, LEASE_SECONDS, Deck, explains
from jobs.service import GROUPS
from processes import Ended

from headwater.stack.addresses import Addresses

ADDRESSES = Addresses(
    kafka="127.0.0.1:9000",
    postgres="postgresql://user:secret@127.0.0.1:5000/chaos",
    s3="http://key:secret@127.0.0.1:7000/chaos",
    lakefs="http://key:secret@127.0.0.1:8000",
)
NAMES = tuple(f"{kind}.{number}" for kind in ("api", "worker", *GROUPS) for number in (1, 2))


def rounds(seed: int, count: int = 20) -> list[list[Fault]]:
    deck = Deck(Random(seed), NAMES, 12, away_seconds=10)
    return [deck.deal() for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_twenty_rounds_hold_every_kind_and_every_process(seed: int) -> None:
    faults = [fault for faults in rounds(seed) for fault in faults]
    drawn = Counter(fault.kind for fault in faults)
    assert all(drawn[kind] >= 7 * times for kind, times in Counter(DECK).items())
    assert {fault.victim for fault in faults if fault.name in ("kill", "stop")} == set(NAMES)


def test_the_kinds_are_those_that_the_design_promises_to_survive() -> None:
    promised = {"kill worker", "stop worker", "cut-off worker", "pause dispatch", "restart kafka", "restart postgres"}
    assert promised | {"away s3"} <= set(KINDS)


def test_a_stop_outlasts_a_lease_and_the_scheduler_stands_still_for_thirty_seconds() -> None:
    faults = [fault for faults in rounds(7) for fault in faults]
    assert min(fault.seconds for fault in faults if fault.name == "stop") > LEASE_SECONDS
    assert {fault.seconds for fault in faults if fault.name == "pause"} == {30}


def test_a_seed_repeats_its_plan_and_another_has_its_own() -> None:
    assert rounds(7) == rounds(7)
    assert rounds(7) != rounds(11)


def inflicted(name: str, victim: str) -> Inflicted:
    return Inflicted(Fault(name, victim, 3, 0), began=100, ended=103)


def ended(code: int, words: str, *, began: float = 101, at: float = 102) -> Ended:
    return Ended("outbox.1", code, words, began, at)


def test_a_process_that_starts_while_a_server_is_away_and_names_it_may_end() -> None:
    assert explains(inflicted("away", "s3"), ended(69, "S3 at http://127.0.0.1:7000 does not answer"), ADDRESSES)
    assert explains(inflicted("drop", "kafka"), ended(69, "127.0.0.1:9000", began=104), ADDRESSES), "only just back"


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        pytest.param(("away", "s3"), ended(69, "Kafka at 127.0.0.1:9000"), id="another server"),
        pytest.param(("away", "s3"), ended(69, "127.0.0.1:7000", began=120, at=130), id="long after"),
        pytest.param(("away", "s3"), ended(69, "127.0.0.1:7000", began=80, at=99), id="before"),
        pytest.param(("away", "s3"), ended(70, "127.0.0.1:7000"), id="another exit"),
        pytest.param(("kill", "worker.1"), ended(69, "127.0.0.1:7000"), id="no server failed"),
    ],
)
def test_any_other_end_is_a_finding(fault: tuple[str, str], end: Ended) -> None:
    assert not explains(inflicted(*fault), end, ADDRESSES)
