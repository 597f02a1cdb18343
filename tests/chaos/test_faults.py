"""The plan of faults: every kind comes, a seed repeats it, and it explains only the exits that its faults cause."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from chaos.faults import DECK, KINDS, LONG_SECONDS, Deck, explains
from chaos.members import Members
from inflicted import Fault, Inflicted
from processes import Ended

from headwater.stack.addresses import Addresses

ADDRESSES = Addresses(
    kafka="127.0.0.1:9000",
    postgres="postgresql://user:secret@127.0.0.1:5000/chaos",
    s3="http://key:secret@127.0.0.1:7000/chaos",
    lakefs="http://key:secret@127.0.0.1:8000",
)


def rounds(seed: int, count: int = 20) -> list[list[Fault]]:
    deck = Deck(Random(seed), 50, away_seconds=60)
    return [deck.deal() for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_twenty_rounds_hold_every_kind(seed: int) -> None:
    drawn = Counter(fault.kind for faults in rounds(seed) for fault in faults)
    assert set(drawn) == set(KINDS)
    victims = {fault.victim for faults in rounds(seed) for fault in faults if fault.name in ("kill", "stop")}
    assert victims == set(Members.NAMES)


def test_the_kinds_are_those_that_the_project_promises_to_survive() -> None:
    ours = {"agent", "upload-files", "upload-parts", "verify-objects", "verify-large", "commit"}
    promised = {
        *(f"{fault} {name}" for fault in ("kill", "stop") for name in ours),
        *(f"{fault} {name}" for fault in ("restart", "away") for name in ("kafka", "postgres", "s3", "lakefs")),
        "second-committer",
        "second-agent",
    }
    assert promised <= set(KINDS)
    assert {kind.partition(" ")[0] for kind in KINDS} >= {"drop", "delay", "stall", "half-close"}


def test_a_server_is_away_for_a_minute_and_a_stop_outlasts_every_session() -> None:
    faults = [fault for faults in rounds(7) for fault in faults]
    assert {fault.seconds for fault in faults if fault.name == "away"} == {60}
    assert {fault.seconds for fault in faults if fault.name == "stop"} == {LONG_SECONDS}
    assert LONG_SECONDS > 10, "a transaction's time-out"


def test_a_seed_repeats_its_plan_and_another_has_its_own() -> None:
    assert rounds(7) == rounds(7)
    assert rounds(7) != rounds(11)


@pytest.mark.parametrize("seed", range(5))
def test_no_round_is_much_longer_than_asked_and_nothing_drawn_is_forgotten(seed: int) -> None:
    dealt = rounds(seed, 40)
    for faults in dealt:
        lasts = [fault.after + fault.seconds for fault in faults]
        assert 50 <= sum(lasts) <= 75 or len(faults) == 1
    drawn = Counter(fault.kind for faults in dealt for fault in faults)
    whole_decks = min(drawn[kind] // times for kind, times in Counter(DECK).items())
    assert whole_decks >= 2


def inflicted(name: str, victim: str) -> Inflicted:
    return Inflicted(Fault(name, victim, 3, 0), began=100, ended=103)


def ended(code: int, words: str, *, name: str = "verify-objects", began: float = 101, at: float = 102) -> Ended:
    return Ended(name, code, words, began, at)


def test_a_process_that_starts_while_a_server_is_away_and_names_it_may_end() -> None:
    said = "Kafka at 127.0.0.1:9000 does not answer"
    assert explains(inflicted("away", "kafka"), ended(69, said), ADDRESSES)
    assert explains(inflicted("stall", "kafka"), ended(69, said, began=104), ADDRESSES), "it is only just back"
    assert explains(inflicted("refuse", "postgres"), ended(69, "postgresql://user:***@127.0.0.1:5000/chaos"), ADDRESSES)


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        pytest.param(("away", "kafka"), ended(69, "S3 at http://127.0.0.1:7000"), id="another server"),
        pytest.param(("away", "kafka"), ended(69, "127.0.0.1:9000", began=120, at=130), id="long after"),
        pytest.param(("away", "kafka"), ended(69, "127.0.0.1:9000", began=80, at=99), id="before"),
        pytest.param(("away", "kafka"), ended(70, "127.0.0.1:9000"), id="another exit"),
        pytest.param(("kill", "agent"), ended(69, "127.0.0.1:9000"), id="no server failed"),
        pytest.param(("away", "kafka"), ended(4, "a newer owner", name="commit"), id="fenced without a second"),
        pytest.param(("second-committer", ""), ended(4, "a newer owner"), id="fenced, and no committer"),
        pytest.param(("second-committer", ""), ended(1, "", name="commit"), id="a committer that failed"),
    ],
)
def test_any_other_end_is_a_finding(fault: tuple[str, str], end: Ended) -> None:
    assert not explains(inflicted(*fault), end, ADDRESSES)


def test_the_older_of_two_committers_ends() -> None:
    assert explains(inflicted("second-committer", ""), ended(4, "another committer", name="commit"), ADDRESSES)
