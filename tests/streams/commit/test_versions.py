"""What a version holds: the verified states, renames whole, deletes, odd names, and what the cut says of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import REGISTRY

from headwater.connectors.catalog.exceptions import note_unreadable
from headwater.rules.identity import content_hash, dataset_path
from headwater.schemas.records import Guarantee


def test_first_version_holds_the_tree(world: Any) -> None:
    world.write(b"a.jpg", b"one")
    world.write(b"deep/er/b.jpg", b"two")
    world.write(b"empty", b"")

    version = world.commit("first light")

    assert (version.version, version.parent, version.added, version.files) == (1, None, 3, 3)
    assert version.content_bytes == 6
    assert version.message == "first light"
    assert world.listing("v1") == world.listing("main") == world.listing(version.commit_id) == world.expected_listing()
    assert [(record.version, record.commit_id) for record in world.announced()] == [(1, version.commit_id)]
    assert world.lakefs.branches(world.dataset, "ingest") == []


def test_later_versions_hold_what_changed_and_earlier_ones_stay(world: Any) -> None:
    world.write(b"kept", b"kept")
    world.write(b"edited", b"before")
    world.write(b"deleted", b"deleted")
    first = world.commit()
    before = world.expected_listing()
    world.write(b"edited", b"afterwards")
    world.delete(b"deleted")
    world.write(b"new", b"new")

    second = world.commit()

    assert (second.parent, second.added, second.changed, second.removed) == (1, 1, 1, 1)
    assert (second.files, second.content_bytes) == (3, len(b"kept" + b"afterwards" + b"new"))
    assert world.changes(2) == {b"edited": "changed", b"deleted": "removed", b"new": "added"}
    assert world.listing("v2") == world.listing("main") == world.expected_listing()
    assert world.listing("v1") == world.listing(first.commit_id) == before
    assert [record.version for record in world.announced()] == [1, 2]


def test_the_committer_measures_how_long_each_agent_is_silent(world: Any) -> None:
    world.add_source("films-of-the-dead")
    with world.catalog.transaction() as transaction:
        transaction.execute(
            "UPDATE sources SET heartbeat_at = now() - interval '1 hour' WHERE source = 'films-of-the-dead'"
        )

    world.commit()

    assert REGISTRY.get_sample_value("headwater_source_silent_seconds", {"source": "films-of-the-dead"}) >= 3600
    assert REGISTRY.get_sample_value("headwater_source_silent_seconds", {"source": "films"}) < 600


def test_nothing_changed_makes_no_version(world: Any) -> None:
    world.write(b"a", b"a")
    world.commit()

    assert world.commit("again") is None

    assert [record.version for record in world.announced()] == [1]


def test_a_state_sent_again_makes_no_version_and_is_not_looked_at_twice(world: Any) -> None:
    same = {"mtime_ns": 5, "mode": 0o600}
    world.write(b"a", b"a", **same)
    world.commit()
    world.write(b"a", b"a", **same)

    assert world.commit() is None

    with world.catalog.transaction() as transaction:
        waiting = transaction.execute("SELECT path FROM paths WHERE (epoch, seq) > (committed_epoch, committed_seq)")
        assert waiting.fetchall() == []


def test_a_path_that_came_and_went_between_versions_leaves_no_trace(world: Any) -> None:
    world.write(b"kept", b"kept")
    world.write(b"passing", b"passing")
    world.delete(b"passing")

    version = world.commit()

    assert world.changes(version.version) == {b"kept": "added"}


def test_an_unverified_file_waits_and_is_named_below_the_cut(world: Any) -> None:
    world.write(b"ready", b"ready")
    world.write(b"waiting", b"waiting", verified=False)
    world.checkpoint()

    first = world.commit()

    assert world.listing("v1") == {"films/ready": (content_hash(b"ready").hex(), 5)}
    assert first.exceptions == 1
    assert first.cut == {
        "films": {
            "epoch": 1,
            "complete_to": world.seq,
            "exception_count": 1,
            "exceptions": [{"path": b"waiting".hex(), "display": "waiting", "reason": "waiting for verification"}],
        }
    }

    world.verified(b"waiting")
    second = world.commit()

    assert world.listing("v2") == world.expected_listing()
    assert second.exceptions == 0


def test_an_older_verified_state_is_taken_while_the_newest_waits(world: Any) -> None:
    world.write(b"a", b"old and safe")
    world.write(b"a", b"new and on its way", verified=False)
    world.checkpoint()

    version = world.commit()

    assert world.listing("v1") == {"films/a": (content_hash(b"old and safe").hex(), 12)}
    assert version.exceptions == 1


def test_a_promised_state_that_waits_is_named_whatever_waits_beyond_the_cut(world: Any) -> None:
    world.write(b"ready", b"ready")
    world.write(b"a", b"promised", verified=False)
    world.checkpoint()
    world.write(b"a", b"beyond the cut", verified=False)

    version = world.commit()

    assert [named["display"] for named in version.cut["films"]["exceptions"]] == ["a"]


def test_nothing_is_promised_before_every_partition_applied_a_checkpoint(world: Any) -> None:
    world.write(b"ready", b"ready")
    world.write(b"waiting", b"waiting", verified=False)

    version = world.commit()

    assert version.cut["films"]["complete_to"] is None
    assert version.exceptions == 0


def test_busy_files_are_named_with_the_agents_reason_until_they_come(world: Any) -> None:
    world.write(b"ready", b"ready")
    world.except_path(b"growing", "busy: still written to")
    world.checkpoint()

    first = world.commit()

    assert [(named["display"], named["reason"]) for named in first.cut["films"]["exceptions"]] == [
        ("growing", "busy: still written to")
    ]

    world.write(b"growing", b"done")
    world.checkpoint()
    second = world.commit()

    assert second.exceptions == 0


def test_a_path_of_which_a_change_could_not_be_read_is_named(world: Any) -> None:
    world.write(b"one", b"first")
    world.checkpoint()
    with world.catalog.transaction() as transaction:
        note_unreadable(transaction, "films", b"one", 0, "dead-lettered: garbage")
    first = world.commit()
    assert first.exceptions == 0, "what was lost came after what this cut promises"

    world.seq += 1  # of the record that nobody could read
    world.write(b"other", b"film")
    world.checkpoint()
    second = world.commit()
    assert [(named["display"], named["reason"]) for named in second.cut["films"]["exceptions"]] == [
        ("one", "dead-lettered: garbage")
    ]


def test_both_halves_of_a_rename_go_together(world: Any) -> None:
    world.write(b"old", b"moved bytes")
    world.commit()
    world.rename(b"old", b"new")

    version = world.commit()

    assert world.changes(version.version) == {b"old": "removed", b"new": "added"}
    assert world.listing("v2") == world.expected_listing()


def test_a_rename_whose_bytes_are_not_verified_is_held_back_whole_and_named(world: Any) -> None:
    world.write(b"old", b"first bytes")
    world.commit()
    world.write(b"old", b"edited bytes", verified=False)
    world.rename(b"old", b"new")
    world.write(b"bystander", b"bystander")
    world.checkpoint()

    second = world.commit()

    assert world.changes(2) == {b"bystander": "added"}
    assert {named["display"]: named["reason"] for named in second.cut["films"]["exceptions"]} == {
        "old": "waiting for the other half of a rename",
        "new": "waiting for verification",
    }

    world.verified(b"edited bytes")
    third = world.commit()

    assert world.changes(3) == {b"old": "removed", b"new": "added"}
    assert world.listing("v3") == world.expected_listing()
    assert third.exceptions == 0


def test_a_chain_of_renames_is_held_back_to_its_beginning(world: Any) -> None:
    world.write(b"one", b"bytes")
    world.commit()
    world.write(b"one", b"other bytes", verified=False)
    world.rename(b"one", b"two")
    world.rename(b"two", b"three")
    world.write(b"one", b"a new file at the first name")

    assert world.commit() is None

    world.verified(b"other bytes")
    world.commit()

    assert world.listing("v2") == world.expected_listing()


def test_a_file_replaced_by_a_directory(world: Any) -> None:
    world.write(b"a", b"a file")
    world.commit()
    world.delete(b"a")
    world.write(b"a/b", b"below it")

    world.commit()

    assert world.listing("v2") == {"films/a/b": (content_hash(b"below it").hex(), 8)}


def test_odd_names_have_a_place_each(world: Any) -> None:
    names = [b"bad\xff.jpg", b"new\nline", b"n" * 1100, b"n" * 1101, "\N{FILM FRAMES}".encode(), b"a%2Fb", b"end "]
    for name in names:
        world.write(name, b"of " + name)

    world.commit()

    assert world.listing("v1") == {
        dataset_path("films", name): (content_hash(b"of " + name).hex(), len(name) + 3) for name in names
    }
    assert set(world.changes(1)) == set(names)


def test_a_version_of_links_alone_is_a_version(world: Any) -> None:
    world.link(b"link", b"../target")
    first = world.commit()
    world.link(b"link", b"elsewhere")
    second = world.commit()
    world.delete(b"link")
    third = world.commit()

    assert [world.changes(v.version) for v in (first, second, third)] == [
        {b"link": "added"},
        {b"link": "changed"},
        {b"link": "removed"},
    ]
    assert [(v.files, v.content_bytes) for v in (first, second, third)] == [(1, 0), (1, 0), (0, 0)]
    assert world.listing("v3") == {}
    assert [record.version for record in world.announced()] == [1, 2, 3]


def test_a_file_that_becomes_a_link_and_back(world: Any) -> None:
    world.write(b"a", b"bytes")
    world.commit()
    world.link(b"a", b"target")
    world.commit()
    assert world.listing("v2") == {}

    world.write(b"a", b"bytes")
    third = world.commit()

    assert world.listing("v3") == world.expected_listing()
    assert (third.files, third.content_bytes) == (1, 5)


@pytest.mark.parametrize("described", [{"mode": 0o755}, {"mtime_ns": 77}, {"uid": 5}, {"guarantee": Guarantee.weak}])
def test_a_change_of_metadata_alone_is_a_version(world: Any, described: dict[str, object]) -> None:
    was = {"mode": 0o644, "mtime_ns": 1_000_000_007, "uid": 0}
    world.write(b"a", b"bytes", **was)
    world.commit()
    world.write(b"a", b"bytes", **(was | described))

    version = world.commit()

    assert world.changes(version.version) == {b"a": "changed"}
    assert version.content_bytes == 5
    (entry,) = world.lakefs.list_objects(world.dataset, "v2")
    shown = {name: f"{value:o}" if name == "mode" else str(value) for name, value in described.items()}
    assert shown.items() <= dict(entry.metadata).items()


def test_a_next_generation_of_the_same_bytes_is_a_change(world: Any) -> None:
    world.write(b"a", b"bytes", mtime_ns=5)
    world.commit()
    content = content_hash(b"bytes")
    world.object_row(content, 5, "condemned")
    world.object_row(content, 5, "verified", generation=2)
    world.record_again(b"a", mtime_ns=5)

    world.commit()

    (entry,) = world.lakefs.list_objects(world.dataset, "v2")
    assert entry.physical_address.endswith(".2")


def test_a_full_manifest_is_written_when_the_deltas_outgrow_half_of_it(world: Any) -> None:
    for number in range(4):
        world.write(b"%d" % number, b"%d" % number)
    world.commit()
    world.write(b"0", b"edited")
    second = world.commit()
    world.write(b"1", b"edited")
    world.write(b"2", b"edited")
    third = world.commit()

    assert second.base_hash is None
    assert third.base_hash is not None


def test_changes_recorded_late_and_out_of_order_never_go_back(world: Any) -> None:
    world.seq = 10
    world.write(b"a", b"new")
    world.commit()
    world.seq = 3
    world.write(b"a", b"old, late")

    assert world.commit() is None
    assert world.listing("main") == {"films/a": (content_hash(b"new").hex(), 3)}
