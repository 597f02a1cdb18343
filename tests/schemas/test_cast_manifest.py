"""The manifest of a cast, record by record; what contradicts it is refused and changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.cast.chunks import Chunks, root_of
from headwater.rules.errors import BadRecord
from headwater.schemas.cast_manifest import Manifest, Manifests, ManifestState, announced, plain_file_name
from headwater.schemas.cast_records import CastManifest, ManifestKind, MemberState
from headwater.schemas.cast_view import Host

MIB = 1024 * 1024
CHUNKS = Chunks(5 * MIB + 1, MIB)
HASHES = b"".join(blake3(bytes([chunk])).digest() for chunk in range(6))
ROOT = root_of(CHUNKS, HASHES)


def record(kind: ManifestKind, **fields: Any) -> CastManifest:
    return CastManifest(name="model", epoch=7, kind=kind, reason=fields.pop("reason", ""), **fields)


ANNOUNCED = record(
    ManifestKind.announced, file_name="model.bin", size=5 * MIB + 1, chunk_bytes=MIB, mtime_ns=1, origin="o",
    expires_us=1_000,
)  # fmt: skip
SEALED = record(ManifestKind.sealed, root=ROOT)


def hashes(first: int, end: int) -> CastManifest:
    return record(ManifestKind.hashes, first_chunk=first, hashes=HASHES[first * 32 : end * 32])


def folded(*records: CastManifest) -> Manifest:
    manifests = Manifests()
    for one in records:
        manifests.take(one)
    return manifests.by_epoch[7]


def test_a_cast_grows_from_its_announcement_to_its_seal() -> None:
    begun = folded(ANNOUNCED)
    assert (begun.chunks, begun.hashed, begun.state) == (CHUNKS, 0, ManifestState.announced)

    half = folded(ANNOUNCED, hashes(0, 2), hashes(2, 3))
    assert (half.hashed, half.hash_of(2)) == (3, HASHES[64:96])
    with pytest.raises(IndexError):
        half.hash_of(3)

    whole = folded(ANNOUNCED, hashes(0, 4), hashes(4, 6), record(ManifestKind.copied, url="http://s3/x"), SEALED)
    assert (whole.state, whole.root, whole.hashes, whole.url) == (ManifestState.sealed, ROOT, HASHES, "http://s3/x")


def test_an_empty_file_is_sealed_without_a_hash() -> None:
    empty = replace(ANNOUNCED, size=0)
    sealed = replace(SEALED, root=root_of(Chunks(0, MIB), b""))

    assert folded(empty, sealed).state is ManifestState.sealed


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_hashes_that_overlap_what_is_known_add_what_is_new(spans: list[tuple[int, int]]) -> None:
    manifest = announced(ANNOUNCED)
    for first, end in spans:
        if first < end and first <= manifest.hashed:
            manifest = manifest.after(hashes(first, end))
    assert manifest.hashes == HASHES[: len(manifest.hashes)]
    assert manifest.after(hashes(0, 6)).after(SEALED).after(SEALED).state is ManifestState.sealed


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (hashes(3, 4), "do not follow the first 2 of 6"),
        (record(ManifestKind.hashes, first_chunk=1, hashes=HASHES[:64]), "other hashes"),
        (record(ManifestKind.hashes, first_chunk=0, hashes=HASHES + HASHES[:32]), "do not follow"),
        (record(ManifestKind.hashes, first_chunk=-1, hashes=HASHES[:32]), "do not follow"),
        (record(ManifestKind.hashes, first_chunk=2, hashes=HASHES[:31]), "not whole"),
        (record(ManifestKind.hashes, hashes=HASHES), "not whole"),
        (SEALED, "only 2 of 6"),
        (record(ManifestKind.copied), "no url"),
        (record(ManifestKind.limited, bytes_per_second=0), "would stop the cast"),
        (replace(ANNOUNCED, size=1), "another file"),
        (replace(hashes(2, 3), name="other"), "it is of cast model 7"),
    ],
)
def test_what_contradicts_the_manifest_is_refused_and_changes_nothing(wrong: CastManifest, says: str) -> None:
    manifests = Manifests()
    for one in (ANNOUNCED, hashes(0, 2)):
        manifests.take(one)
    before = manifests.by_epoch[7]

    with pytest.raises(BadRecord, match=says):
        manifests.take(wrong)
    assert manifests.by_epoch[7] is before


def test_a_root_of_other_hashes_is_refused() -> None:
    with pytest.raises(BadRecord, match="its root is not"):
        folded(ANNOUNCED, hashes(0, 6), replace(SEALED, root=bytes(32)))


@pytest.mark.parametrize(
    "wrong",
    [
        hashes(0, 1),
        replace(ANNOUNCED, origin=None),
        replace(ANNOUNCED, expires_us=None),
        replace(ANNOUNCED, chunk_bytes=3 * MIB),
        replace(ANNOUNCED, chunk_bytes=2 << 30),
        replace(ANNOUNCED, size=-1),
        replace(ANNOUNCED, file_name="../model.bin"),
    ],
)
def test_a_cast_that_cannot_be_had_does_not_begin(wrong: CastManifest) -> None:
    with pytest.raises(BadRecord):
        announced(wrong)


def test_what_follows_an_abort_changes_nothing_but_a_removal() -> None:
    aborted = folded(ANNOUNCED, hashes(0, 1), record(ManifestKind.aborted, reason="the source changed"))
    assert (aborted.ended, aborted.reason) == (True, "the source changed")
    assert aborted.after(hashes(1, 6)).after(SEALED) == aborted

    removed = aborted.after(record(ManifestKind.removed, reason="by hand"))
    assert removed.state is ManifestState.removed
    assert removed.after(record(ManifestKind.aborted)) == removed


def test_a_sealed_cast_can_be_aborted() -> None:
    assert folded(ANNOUNCED, hashes(0, 6), SEALED, record(ManifestKind.aborted)).state is ManifestState.aborted


def test_a_kind_of_a_newer_release_changes_nothing() -> None:
    assert folded(ANNOUNCED, record(ManifestKind.unknown)) == folded(ANNOUNCED)


def test_limits_hold_for_each_host_one_host_or_a_rack_until_they_are_lifted() -> None:
    limited = folded(
        ANNOUNCED,
        record(ManifestKind.limited, bytes_per_second=100),
        record(ManifestKind.limited, host="a", bytes_per_second=50),
        record(ManifestKind.limited, rack="r1", bytes_per_second=70),
        record(ManifestKind.limited, rack="r2", bytes_per_second=80),
    ).limits
    assert (limited.of_host("a"), limited.of_host("b"), limited.racks) == (50, 100, {"r1": 70, "r2": 80})

    lifted = folded(
        ANNOUNCED,
        record(ManifestKind.limited, bytes_per_second=100),
        record(ManifestKind.limited, rack="r1", bytes_per_second=70),
        record(ManifestKind.limited),
        record(ManifestKind.limited, rack="r1"),
    ).limits
    assert (lifted.of_host("a"), lifted.racks) == (None, {})


@pytest.mark.parametrize(
    ("targets", "named"),
    [
        ((), "a b c"),
        (("a",), "a"),
        (("rack:r1",), "a b"),
        (("rack:",), "c"),
        (("rack:r1", "c"), "a b c"),
        (("r1",), ""),
    ],
)
def test_targets_name_hosts_and_racks(targets: tuple[str, ...], named: str) -> None:
    manifest = announced(replace(ANNOUNCED, targets=targets))

    assert (
        " ".join(name for name, rack in (("a", "r1"), ("b", "r1"), ("c", "")) if manifest.names(host(name, rack)))
        == named
    )


def test_a_peer_of_one_cast_is_named_by_no_other() -> None:
    assert announced(ANNOUNCED).names(host("a", "r1", only="model"))
    assert not announced(ANNOUNCED).names(host("a", "r1", only="other"))


def test_an_origin_is_named_by_no_cast() -> None:
    assert not announced(ANNOUNCED).names(host("o", "r1"))
    assert not announced(ANNOUNCED).names(host("a/6", "r1", only="model"))


def host(name: str, rack: str, only: str | None = None) -> Host:
    return Host(name, rack, "127.0.0.1:1", 1, 0, 0, only, MemberState.joined)


def test_a_cast_expires_at_its_time() -> None:
    assert (announced(ANNOUNCED).expired(999), announced(ANNOUNCED).expired(1_000)) == (False, True)


def test_the_newest_cast_of_a_name_is_that_of_the_largest_epoch() -> None:
    manifests = Manifests()
    for epoch in (9, 12, 3):
        manifests.take(replace(ANNOUNCED, epoch=epoch))
    manifests.take(replace(ANNOUNCED, epoch=99, name="other"))

    newest = manifests.newest("model")
    assert newest is not None
    assert newest.epoch == 12
    manifests.forget(12)
    assert manifests.newest("nobody") is None
    assert 12 not in manifests.by_epoch


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\0", "x" * 256, "é" * 128, ".headwater-cast", "\udcff"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    assert not plain_file_name(name)


@pytest.mark.parametrize("name", ["a", "model.bin", "..a", "x" * 255, "ein Name", ".hidden"])
def test_plain_names_are_taken(name: str) -> None:
    assert plain_file_name(name)
