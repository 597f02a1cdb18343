"""Who shall have a cast, and who has it, as its publisher tells from the log."""

from itertools import count

import pytest

from headwater.cli.cast.audience import complete, expected, missing, others_may_come, over
from headwater.schemas.cast_history import CastHistory
from headwater.schemas.cast_manifest import announced as manifest_of
from headwater.schemas.cast_records import (
    CastManifest,
    CastMember,
    CastProgress,
    CastState,
    ManifestKind,
    MemberState,
)

EPOCH = 7
OFFSETS = count()


def said(kind: ManifestKind, epoch: int = EPOCH, name: str = "model", **fields) -> CastManifest:
    return CastManifest(name=name, epoch=epoch, kind=kind, reason=f"because {kind}", **fields)


def announced(*targets: str, epoch: int = EPOCH, name: str = "model") -> CastManifest:
    return said(
        ManifestKind.announced, epoch, name, file_name="m", size=1, chunk_bytes=1 << 20, mtime_ns=0,
        origin=f"h/{epoch}", targets=targets, expires_us=1,
    )  # fmt: skip


def audience(*targets: str, hosts: str = "") -> CastHistory:
    made = CastHistory(manifest_of(announced(*targets)), 0)
    join(made, *hosts.split())
    return made


def take(made: CastHistory, record) -> None:
    made.take(record, 0, next(OFFSETS), 0)


def join(made: CastHistory, *hosts: str, state: MemberState = MemberState.joined, only: str | None = None) -> None:
    """Hosts as rack:name."""
    for host in hosts:
        rack, _, name = host.rpartition(":")
        member = CastMember(
            host=name, incarnation=1, rack=rack, address="", state=state, only=only, said_by=name, reason="", at_us=0
        )
        take(made, member)


def install(made: CastHistory, *hosts: str, state: CastState = CastState.installed, epoch: int = EPOCH) -> None:
    for host in hosts:
        rack, _, name = host.rpartition(":")
        step = CastProgress(
            epoch=epoch, name="model", host=name, incarnation=1, rack=rack, state=state, chunks=1,
            received_bytes=1, outside_bytes=0, seconds=1.0, reason="", at_us=0,
        )  # fmt: skip
        take(made, step)


def test_named_hosts_are_waited_for_though_they_are_not_there():
    made = audience("a", "b", hosts="r1:a r1:c")
    install(made, "r1:a", "r1:c")
    assert (missing(made), complete(made), others_may_come(made)) == ({"b"}, False, False)
    install(made, "r1:b")
    assert complete(made)


def test_without_targets_it_is_for_every_peer_but_origins():
    made = audience(hosts="r1:a r2:b r1:h/7 r1:old/6")
    assert (expected(made), others_may_come(made)) == ({"a", "b"}, True)
    install(made, "r1:a", "r2:b")
    assert complete(made)


def test_nobody_there_is_not_complete():
    assert not complete(audience())


def test_a_peer_that_takes_part_in_another_cast_only_is_not_waited_for():
    made = audience(hosts="r1:a")
    join(made, "r1:b", only="other")
    join(made, "r1:c", only="model")
    assert expected(made) == {"a", "c"}


def test_a_peer_that_left_or_died_is_not_waited_for_unless_it_was_named():
    made, named = audience(hosts="r1:a r1:b r1:c"), audience("b", hosts="r1:a r1:b")
    for one in (made, named):
        join(one, "r1:b", state=MemberState.left)
        join(one, "r1:c", state=MemberState.suspected)
    assert expected(made) == {"a"}
    assert expected(named) == {"b"}


def test_of_each_rack_that_is_a_target_somebody_must_have_it():
    made = audience("rack:r1", "rack:r2", hosts="r1:a r1:b r3:x")
    assert expected(made) == {"a", "b"}
    install(made, "r1:a", "r1:b")
    assert not complete(made), "nobody of r2 was there yet"
    join(made, "r2:c")
    install(made, "r2:c")
    assert complete(made)


@pytest.mark.parametrize("state", [CastState.started, CastState.complete, CastState.failed, CastState.left])
def test_only_installed_counts(state):
    made = audience(hosts="r1:a")
    install(made, "r1:a", state=state)
    assert not complete(made)


def test_who_has_it_and_leaves_still_has_it():
    made = audience("a", "rack:r2", hosts="r1:a r2:b")
    install(made, "r1:a", "r2:b")
    install(made, "r1:a", "r2:b", state=CastState.left)
    join(made, "r1:a", "r2:b", state=MemberState.left)
    assert complete(made)


def test_what_peers_say_of_another_cast_does_not_count():
    made = audience(hosts="r1:a")
    install(made, "r1:a", epoch=EPOCH - 1)
    assert not complete(made)


def test_a_newer_cast_of_the_name_replaces_it():
    made = audience()
    take(made, announced(epoch=8, name="other"))
    take(made, announced(epoch=6))
    take(made, said(ManifestKind.aborted, epoch=9))  # which nobody ever heard of
    assert over(made) == ""
    take(made, announced(epoch=8))
    assert over(made) == "cast 8 of the same name replaced it"


@pytest.mark.parametrize("kind", [ManifestKind.aborted, ManifestKind.removed])
def test_a_cast_that_was_ended_says_why(kind):
    made = audience()
    take(made, said(kind))
    assert over(made) == f"it was {kind}: because {kind}"
