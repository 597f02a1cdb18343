"""The manifest of a cast: the fold of the records that its epoch has in cast.manifests.

    announced ─► hashes … ─► copied? ─► sealed        (limited at any time)
        └───────────┴───────────┴─────────┴──► aborted | removed: what follows changes nothing

A record that comes again changes nothing. One that contradicts what is known is refused with BadRecord and leaves the
manifest as it was: such a cast can no longer be sealed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from headwater.rules.cast.chunks import HASH_BYTES, Chunks, root_of
from headwater.rules.errors import BadRecord, BadSettings
from headwater.schemas.cast_records import CastManifest, ManifestKind
from headwater.schemas.cast_view import Host

RACK = "rack:"
"""Before a rack's name among the targets."""
WORK_FOLDER = ".headwater-cast"
"""Where peers keep what is not whole yet, inside the target folder: no file may take its name."""
_NAME_BYTES = 255


class ManifestState(StrEnum):
    announced = "announced"
    sealed = "sealed"
    aborted = "aborted"
    removed = "removed"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most bytes per second: ``each_host``, ``hosts`` by name, ``racks`` as a whole by name."""

    each_host: int | None = None
    hosts: Mapping[str, int] = field(default_factory=dict)
    racks: Mapping[str, int] = field(default_factory=dict)

    def of_host(self, name: str) -> int | None:
        """Its own limit before that of each host; None: none."""
        return self.hosts.get(name, self.each_host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is known of a cast. ``hashes``: 32 bytes of each chunk from the first on, as far as they are known.
    ``root`` is known once it is sealed. ``reason``: why it was aborted or removed."""

    name: str
    epoch: int
    file_name: str
    chunks: Chunks
    mtime_ns: int
    origin: str
    targets: tuple[str, ...]
    expires_us: int
    state: ManifestState = ManifestState.announced
    hashes: bytes = b""
    url: str | None = None
    root: bytes | None = None
    limits: Limits = Limits()
    reason: str = ""

    @property
    def hashed(self) -> int:
        """So many chunks, from the first on, have their hash in it."""
        return len(self.hashes) // HASH_BYTES

    @property
    def ended(self) -> bool:
        """It was aborted or removed: nobody asks for it or serves it."""
        return self.state in (ManifestState.aborted, ManifestState.removed)

    def hash_of(self, chunk: int) -> bytes:
        """Raises IndexError where it is not known yet."""
        if not 0 <= chunk < self.hashed:
            raise IndexError(f"chunk {chunk}: {self.hashed} hashes are known")
        return self.hashes[chunk * HASH_BYTES : (chunk + 1) * HASH_BYTES]

    def expired(self, now_us: int) -> bool:
        return now_us >= self.expires_us

    def names(self, host: Host) -> bool:
        """Shall the host have the file? Not its origin, and not a peer that takes part in another cast only."""
        if host.name == self.origin or host.only_sends or host.only not in (None, self.name):
            return False
        return not self.targets or host.name in self.targets or RACK + host.rack in self.targets

    def after(self, record: CastManifest) -> Manifest:
        """The manifest with one more record of its epoch. Raises BadRecord."""
        if record.epoch != self.epoch or record.name != self.name:
            raise _bad(record, f"it is of cast {self.name} {self.epoch}")
        if self.state is ManifestState.removed or record.kind is ManifestKind.unknown:
            return self
        if record.kind is ManifestKind.removed:
            return replace(self, state=ManifestState.removed, reason=record.reason)
        if self.state is ManifestState.aborted:
            return self
        match record.kind:
            case ManifestKind.announced:
                return self._announced_again(record)
            case ManifestKind.hashes:
                return self._with_hashes(record)
            case ManifestKind.copied:
                if not record.url:
                    raise _bad(record, "it has no url")
                return replace(self, url=record.url)
            case ManifestKind.sealed:
                return self._sealed(record)
            case ManifestKind.limited:
                return replace(self, limits=_limited(self.limits, record))
            case ManifestKind.aborted:
                return replace(self, state=ManifestState.aborted, reason=record.reason)

    def _announced_again(self, record: CastManifest) -> Manifest:
        again = announced(record)
        if (again.file_name, again.chunks, again.origin) != (self.file_name, self.chunks, self.origin):
            raise _bad(record, "its epoch was announced for another file")
        return self

    def _with_hashes(self, record: CastManifest) -> Manifest:
        first, hashes = record.first_chunk, record.hashes
        if first is None or not hashes or len(hashes) % HASH_BYTES:
            raise _bad(record, "its hashes are not whole")
        start, end = first * HASH_BYTES, first * HASH_BYTES + len(hashes)
        if not 0 <= first <= self.hashed or end > self.chunks.count * HASH_BYTES:
            raise _bad(
                record,
                f"its {len(hashes) // HASH_BYTES} hashes from chunk {first} do not follow the first {self.hashed} of "
                f"{self.chunks.count}",
            )
        known = self.hashes[start:end]
        if not hashes.startswith(known):
            raise _bad(record, f"chunks from {first} on were said to have other hashes")
        return replace(self, hashes=self.hashes + hashes[len(known) :])

    def _sealed(self, record: CastManifest) -> Manifest:
        if self.hashed < self.chunks.count:
            raise _bad(record, f"only {self.hashed} of {self.chunks.count} chunks have a hash")
        if record.root != root_of(self.chunks, self.hashes):
            raise _bad(record, "its root is not that of the chunks' hashes")
        return replace(self, state=ManifestState.sealed, root=record.root)


class Manifests:
    """The manifests of all casts, record by record."""

    def __init__(self) -> None:
        self.by_epoch: dict[int, Manifest] = {}

    def take(self, record: CastManifest) -> Manifest:
        """The cast's manifest as it is now. Raises BadRecord, also for a cast whose announcement was not read."""
        known = self.by_epoch.get(record.epoch)
        manifest = announced(record) if known is None else known.after(record)
        self.by_epoch[record.epoch] = manifest
        return manifest

    def newest(self, name: str) -> Manifest | None:
        """The cast that replaced all others of its name."""
        return max((one for one in self.by_epoch.values() if one.name == name), key=lambda one: one.epoch, default=None)

    def forget(self, epoch: int) -> None:
        self.by_epoch.pop(epoch, None)


def announced(record: CastManifest) -> Manifest:
    """A cast's manifest as it begins. Raises BadRecord where the record does not announce one that can be had."""
    if record.kind is not ManifestKind.announced:
        raise _bad(record, "its cast was not announced")
    if record.file_name is None or record.size is None or record.chunk_bytes is None or record.origin is None:
        raise _bad(record, "a file's name, size, chunk size or origin is missing")
    if record.mtime_ns is None or record.expires_us is None:
        raise _bad(record, "a file's modification time or the cast's expiry is missing")
    if not plain_file_name(record.file_name):
        raise _bad(record, f"{record.file_name!r} is no plain name of a file")
    try:
        chunks = Chunks(record.size, record.chunk_bytes)
    except BadSettings as error:
        raise _bad(record, error.happened) from error
    return Manifest(
        name=record.name,
        epoch=record.epoch,
        file_name=record.file_name,
        chunks=chunks,
        mtime_ns=record.mtime_ns,
        origin=record.origin,
        targets=record.targets,
        expires_us=record.expires_us,
    )


def plain_file_name(name: str) -> bool:
    """One component of a path, which a filesystem takes and which leads nowhere else."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return False
    return 0 < length <= _NAME_BYTES and name not in (".", "..", WORK_FOLDER) and not {"/", "\0"} & set(name)


def _limited(limits: Limits, record: CastManifest) -> Limits:
    most = record.bytes_per_second
    if most is not None and most <= 0:
        raise _bad(record, f"a limit of {most} bytes per second would stop the cast")
    if record.rack is not None:
        return replace(limits, racks=_with(limits.racks, record.rack, most))
    if record.host is not None:
        return replace(limits, hosts=_with(limits.hosts, record.host, most))
    return replace(limits, each_host=most)


def _with(limits: Mapping[str, int], name: str, most: int | None) -> dict[str, int]:
    others = {other: limit for other, limit in limits.items() if other != name}
    return others if most is None else others | {name: most}


def _bad(record: CastManifest, happened: str) -> BadRecord:
    return BadRecord(
        f"the {record.kind} record of cast {record.name} {record.epoch} is refused: {happened}.",
        kept="The cast's manifest is as it was before.",
        epoch=record.epoch,
    )
