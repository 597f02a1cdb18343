"""An operator's words to a cast."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.connectors.catalog import actions, casts
from headwater.producers.caster import telling
from headwater.producers.caster.telling import abort, limit, remove
from headwater.rules.errors import NotFound, Refused
from headwater.schemas.cast_manifest import ManifestState

pytestmark = pytest.mark.stack


@pytest.fixture
def epoch(world: Any) -> int:
    return int(world.cast(world.file(3)).cast.epoch)


def test_an_abort_is_told_and_recorded(world: Any, epoch: int) -> None:
    abort(world.kafka, world.catalog, world.order.name, "ada", "wrong file")

    manifest = world.manifest(epoch)
    assert (manifest.state, manifest.reason) == ("aborted", "wrong file")
    with world.catalog.transaction() as transaction:
        action = actions.newest(transaction, 1)[0]
    assert (action.operator, action.action, action.subject, action.done) == (
        "ada", "abort a cast", f"cast:{epoch}", True,
    )  # fmt: skip


def test_an_abort_of_what_ended_is_refused(world: Any, epoch: int) -> None:
    abort(world.kafka, world.catalog, world.order.name, "ada", "wrong file")
    with pytest.raises(Refused, match="aborted already: wrong file"):
        abort(world.kafka, world.catalog, world.order.name, "bob", "again")
    assert world.row(epoch).reason == "wrong file"


def test_an_abort_that_died_before_the_log_knew_is_told_by_the_next(world: Any, epoch: int) -> None:
    with world.catalog.transaction() as transaction:
        casts.end(transaction, epoch, ManifestState.aborted, "first")

    abort(world.kafka, world.catalog, world.order.name, "bob", "again")
    assert world.manifest(epoch).reason == "first"
    assert world.row(epoch).told


def test_a_log_that_does_not_answer_leaves_it_untold(world: Any, epoch: int, monkeypatch: Any) -> None:
    from headwater.connectors.kafka.client import Kafka
    from headwater.connectors.kafka.config import KafkaConfig
    from headwater.rules.errors import Unavailable

    monkeypatch.setattr(telling, "_PATIENCE_SECONDS", 0.5)
    with pytest.raises(Unavailable):
        telling.tell(Kafka(KafkaConfig("127.0.0.1:9")), world.catalog, [world.row(epoch)], seconds=0.5)
    with world.catalog.transaction() as transaction:
        casts.end(transaction, epoch, ManifestState.aborted, "away")
    with pytest.raises(Unavailable):
        telling.tell(Kafka(KafkaConfig("127.0.0.1:9")), world.catalog, [world.row(epoch)], seconds=0.5)
    assert not world.row(epoch).told


def test_removed_is_the_last_word(world: Any, epoch: int) -> None:
    assert len(remove(world.kafka, world.catalog, world.rows(), "ada", "no longer needed")) == 1
    assert world.manifest(epoch).state == "removed"
    assert remove(world.kafka, world.catalog, world.rows(), "ada", "again") == []
    with pytest.raises(Refused, match="removed already"):
        abort(world.kafka, world.catalog, world.order.name, "ada", "late")


def test_limits_are_those_that_were_asked_for(world: Any, epoch: int) -> None:
    name = world.order.name
    limit(world.kafka, world.catalog, name, 5_000, reason="the day's traffic")
    limit(world.kafka, world.catalog, name, 3_000, host="a", reason="")
    limit(world.kafka, world.catalog, name, 9_000, rack="r1", reason="")
    limits = world.manifest(epoch).limits
    assert (limits.each_host, dict(limits.hosts), dict(limits.racks)) == (5_000, {"a": 3_000}, {"r1": 9_000})

    limit(world.kafka, world.catalog, name, None, host="a", reason="")
    assert world.manifest(epoch).limits.of_host("a") == 5_000


def test_what_has_ended_has_no_limits(world: Any, epoch: int) -> None:
    abort(world.kafka, world.catalog, world.order.name, "ada", "wrong file")
    with pytest.raises(Refused, match="is aborted"):
        limit(world.kafka, world.catalog, world.order.name, 1, reason="")
    assert world.manifest(epoch).limits.each_host is None


def test_no_cast_of_that_name(world: Any) -> None:
    for ask in (
        lambda: abort(world.kafka, world.catalog, "nobody", "ada", ""),
        lambda: limit(world.kafka, world.catalog, "nobody", 1, reason=""),
    ):
        with pytest.raises(NotFound):
            ask()
