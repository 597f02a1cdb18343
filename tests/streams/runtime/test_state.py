"""What a member shows of itself, on a turned clock."""

from __future__ import annotations

from prometheus_client import REGISTRY

from headwater.streams.runtime.state import Phase, StateBoard


def test_a_call_that_blocks_is_shown_as_degraded_by_the_metric_too_and_only_while_it_blocks() -> None:
    now = 1_000.0

    def shown() -> list[str]:
        labels = [{"group": "blocked", "phase": phase} for phase in Phase]
        return [one["phase"] for one in labels if REGISTRY.get_sample_value("headwater_group_state", one) == 1]

    board = StateBoard("blocked", lambda: now)
    board.enter(Phase.running)
    with board.waiting_for("Kafka at example:9092"):
        now += 4
        assert shown() == ["running"]
        now += 3
        assert shown() == ["degraded"]
        assert board.read("id", ()).reason == "Kafka at example:9092 has not answered for 7 s."
    assert shown() == ["running"]
