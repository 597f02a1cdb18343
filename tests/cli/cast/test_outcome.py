"""What became of a cast: judged target by target, from what the log says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.cli.cast.outcome import Status, TargetState, floor_of, outcome
from headwater.rules.cast.chunks import Chunks, root_of
from headwater.schemas.cast_history import CastHistory
from headwater.schemas.cast_manifest import Manifest, ManifestState
from headwater.schemas.cast_records import CastManifest, CastMember, CastProgress, CastState, ManifestKind, MemberState

MIB = 1024 * 1024
CHUNKS = Chunks(4 * MIB, MIB)
HASHES = bytes(range(128))
ROOT = root_of(CHUNKS, HASHES)
SEALED = Manifest(
    name="model", epoch=7, file_name="m.bin", chunks=CHUNKS, mtime_ns=0, origin="o/7", targets=(), expires_us=10**12,
    state=ManifestState.sealed, hashes=HASHES, root=ROOT,
)  # fmt: skip
SECOND = 1_000_000


class Told:
    """A history by its records, each taken by the log a second after the one before."""

    def __init__(self, manifest: Manifest = SEALED) -> None:
        self.history = CastHistory(manifest, 100 * SECOND)
        self._at, self._offset = 100, 0

    def take(self, record: Any) -> Told:
        self._at, self._offset = self._at + 1, self._offset + 1
        self.history.take(record, 0, self._offset, self._at * SECOND)
        return self

    def member(self, host: str, state: MemberState = MemberState.joined, *, incarnation: int = 1, **more: Any) -> Told:
        return self.take(
            CastMember(
                host=host, incarnation=incarnation, rack=more.pop("rack", "r1"), address="a:1", state=state,
                said_by=host, reason="", at_us=0, **more,
            )
        )  # fmt: skip

    def step(self, host: str, state: CastState, *, incarnation: int = 1, **more: Any) -> Told:
        said = {
            "chunks": 4,
            "received_bytes": 4 * MIB,
            "outside_bytes": MIB,
            "seconds": 2.5,
            "reason": "",
            "root": None,
        }
        if state in (CastState.complete, CastState.installed):
            said["root"] = ROOT
        return self.take(
            CastProgress(
                epoch=7, name="model", host=host, incarnation=incarnation, rack="r1", state=state, at_us=0,
                **(said | more),
            )
        )  # fmt: skip

    def now(self, seconds: float = 200) -> Any:
        return outcome(self.history, int(seconds * SECOND))

    def states(self) -> dict[str, str]:
        return {target.host: str(target.state) for target in self.now().targets}


def test_a_cast_is_complete_when_all_its_targets_installed_it() -> None:
    told = Told().member("a").member("b").member("o/7").member("other", only="other")
    assert told.now().status is Status.running

    found = told.step("a", CastState.installed).step("b", CastState.installed).now(1_000)

    assert (found.status, found.status.exit_code, found.installed) == (Status.complete, 0, 2)
    assert found.seconds == 6, "from the announcement to the log's word of the last, whatever the time is now"
    assert [(one.host, one.root, one.seconds, one.incarnation) for one in found.targets] == [
        ("a", ROOT, 2.5, 1),
        ("b", ROOT, 2.5, 1),
    ]
    assert found.copies_per_rack == 0.5


def test_who_installed_it_has_it_whatever_became_of_the_peer() -> None:
    told = Told().member("a").step("a", CastState.installed).step("a", CastState.left)
    told.member("a", MemberState.left).member("a", incarnation=2)
    told.step("a", CastState.installed, incarnation=2, seconds=0.0, received_bytes=0)

    [target] = told.now().targets
    assert (target.state, target.seconds, target.received_bytes) == (TargetState.installed, 2.5, 4 * MIB)
    assert told.now().status is Status.complete


def test_a_cast_that_one_host_cannot_finish_is_partial_and_names_it() -> None:
    told = Told().member("a").member("b").member("c").member("d")
    told.step("a", CastState.installed).step("b", CastState.failed, reason="the disk died")
    told.step("c", CastState.started, chunks=2).step("d", CastState.refused, reason="no space")
    assert told.now().status is Status.running, "c goes on"

    told.member("c", MemberState.suspected)
    found = told.now()

    assert (found.status, found.status.exit_code) == (Status.partial, 3)
    assert found.reason == "3 of 4 hosts do not have it"
    assert told.states() == {"a": "installed", "b": "failed", "c": "lost", "d": "refused"}
    assert {one.host: one.reason for one in found.targets}["b"] == "the disk died"

    told.member("c", incarnation=2).step("c", CastState.resumed, incarnation=2)
    assert told.now().status is Status.running, "it came back"


def test_a_root_other_than_the_casts_is_a_failure() -> None:
    told = Told().member("a").step("a", CastState.installed, root=bytes(32))

    assert told.states() == {"a": "failed"}
    assert told.now().status is Status.partial


def test_targets_that_never_joined_are_missing_until_the_cast_expires() -> None:
    told = Told(replace(SEALED, targets=("a", "b", "rack:r2")))
    told.member("a").step("a", CastState.installed).member("c", rack="r2").member("d")

    assert told.states() == {"a": "installed", "b": "missing", "c": "waiting"}
    assert told.now().status is Status.running
    late = told.now(10**7)
    assert (late.status, late.reason) == (Status.partial, "it expired before all had it")


def test_a_cast_that_is_not_sealed_is_not_complete() -> None:
    hashing = replace(SEALED, state=ManifestState.announced, root=None)
    told = Told(hashing).member("a").step("a", CastState.complete)

    assert told.states() == {"a": "complete"}
    assert told.now().status is Status.running


def test_what_ended_a_cast_is_told_unless_all_had_it() -> None:
    aborted = CastManifest(name="model", epoch=7, kind=ManifestKind.aborted, reason="the source changed")
    told = Told().member("a").member("b").step("a", CastState.installed).take(aborted)
    assert (told.now().status, told.now().status.exit_code, told.now().reason) == (
        Status.aborted, 1, "the source changed",
    )  # fmt: skip

    whole = Told().member("a").step("a", CastState.installed)
    whole.take(CastManifest(name="model", epoch=7, kind=ManifestKind.removed, reason="by hand"))
    assert whole.now().status is Status.complete


def test_a_newer_cast_of_the_name_ends_an_older_one() -> None:
    told = Told().member("a")
    told.take(CastManifest(name="model", epoch=9, kind=ManifestKind.announced, reason=""))

    assert told.now().reason == "cast 9 replaced it before all had it"
    assert told.now().status is Status.partial


def test_steps_of_other_casts_and_of_older_starts_change_nothing() -> None:
    told = Told().member("a", incarnation=2).step("a", CastState.started, incarnation=2)
    told.step("a", CastState.failed, incarnation=1)
    told.take(replace(told.history.steps["a"].said, epoch=8, state=CastState.installed))

    assert told.states() == {"a": "receiving"}


@pytest.mark.parametrize(
    ("oversubscription", "mtu", "seconds", "resource"),
    [
        (1.0, None, 4 * MIB / 1e6, "origin's uplink"),
        (8.0, None, 8 * 4 * MIB / 2e6, "rack's uplink"),
        (1.0, 1500, 4 * MIB / (1e6 * 1448 / 1538), "origin's uplink"),
    ],
)
def test_the_floor_is_the_highest_bound_of_the_targets(
    oversubscription: float, mtu: int | None, seconds: float, resource: str
) -> None:
    told = Told().member("a").member("b")
    floor = floor_of(told.history, told.now(), 1e6, oversubscription, mtu)

    assert floor is not None
    assert floor.seconds == pytest.approx(seconds)
    assert floor.resource == resource
    assert floor_of(Told().history, Told().now(), 1e6, 1.0, None) is None
