"""Who shall have a cast, who has it, and whether it still counts: what its publisher reads on the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headwater.rules.errors import BadRecord
from headwater.schemas.cast_manifest import RACK, Manifest, announced
from headwater.schemas.cast_records import CastManifest, CastMember, CastProgress, CastRack, CastState, ManifestKind
from headwater.schemas.cast_view import Entry, Host, View

if TYPE_CHECKING:
    from confluent_kafka import Message

    from headwater.connectors.kafka.client import Kafka
    from headwater.connectors.kafka.following import Following

ORIGIN = "/"
"""In the names of origins, which are peers too and no audience: host/epoch."""


class Audience:
    """The fold, from records in the order of the log.

    ``over`` says why the cast ended or no longer counts, once it does. ``installed``: the rack of each host that has
    the whole file under its name, whatever became of the host later. ``racks`` is what `headwater run gossip` says.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.manifest: Manifest | None = None
        self.over = ""
        self.view = View()
        self.installed: dict[str, str] = {}
        self.racks: dict[str, CastRack] = {}

    def take(self, record: object) -> None:
        if isinstance(record, CastProgress) and record.epoch == self.epoch:
            if record.state is CastState.installed:
                self.installed[record.host] = record.rack
        elif isinstance(record, CastRack) and record.epoch == self.epoch:
            self.racks[record.rack] = record
        elif isinstance(record, CastManifest):
            self._take_manifest(record)

    def take_members(self, entries: Iterable[Entry]) -> None:
        self.view = self.view.after(entries)

    @property
    def expected(self) -> set[str]:
        """The hosts that are targets by name; else those that are there now and that the cast names."""
        if self.manifest is None:
            return set()
        named = {target for target in self.manifest.targets if not target.startswith(RACK)}
        return named | {host.name for host in self.present}

    @property
    def present(self) -> list[Host]:
        """The live hosts that the cast names, but for origins."""
        hosts = [host for rack in self.view.racks.values() for host in rack if ORIGIN not in host.name]
        return [host for host in hosts if self.manifest is not None and self.manifest.names(host)]

    @property
    def missing(self) -> set[str]:
        return self.expected - self.installed.keys()

    @property
    def complete(self) -> bool:
        """Everybody who is expected has it, and of each rack that is a target somebody does."""
        if self.manifest is None or not self.expected or self.missing:
            return False
        racks = {RACK + rack for rack in self.installed.values()}
        return all(target in racks for target in self.manifest.targets if target.startswith(RACK))

    @property
    def named_hosts_only(self) -> bool:
        """Nobody but the hosts that were named can want it."""
        targets = self.manifest.targets if self.manifest is not None else ()
        return bool(targets) and not any(target.startswith(RACK) for target in targets)

    def _take_manifest(self, record: CastManifest) -> None:
        known = self.manifest
        if known is not None and record.name == known.name and record.epoch > self.epoch:
            if record.kind is ManifestKind.announced and not self.over:
                self.over = f"{record.origin} announced cast {record.epoch} under the same name, which replaces it"
        elif record.epoch == self.epoch:
            try:
                self.manifest = announced(record) if known is None else known.after(record)
            except BadRecord:
                return  # said before the announcement, or a second time
            if self.manifest.ended and not self.over:
                self.over = f"it was {self.manifest.state}: {self.manifest.reason}"


class AudienceLog:
    """Reads the log for one audience, from what was said before the cast was announced. For one thread."""

    def __init__(self, kafka: Kafka) -> None:
        """Call it before the cast is announced. Raises what Kafka's errors are mapped to."""
        from headwater.connectors.kafka import offsets
        from headwater.schemas.topics import CAST_MANIFESTS, CAST_MEMBERS, CAST_PROGRESS, CAST_RACKS

        topics = (CAST_MANIFESTS, CAST_PROGRESS, CAST_RACKS)
        said = [place for topic in topics for place in offsets.partitions(kafka, topic.name)]
        members = offsets.partitions(kafka, CAST_MEMBERS.name)
        self._kafka = kafka
        self._starts = {**offsets.ends(kafka, said), **offsets.beginnings(kafka, members)}
        self._following: Following | None = None

    def read(self, audience: Audience, within_seconds: float) -> None:
        """Take what has come; waits as long for a first record."""
        from headwater.connectors.kafka.following import Following

        if self._following is None:
            self._following = Following(self._kafka, self._starts)
        entries: list[Entry] = []
        for message in self._following.read(within_seconds):
            self._take(audience, message, entries)
        if entries:
            audience.take_members(entries)

    def close(self) -> None:
        if self._following is not None:
            self._following.close()

    def _take(self, audience: Audience, message: Message, entries: list[Entry]) -> None:
        from headwater.schemas.codec import decode

        try:
            record = decode(message.value())
        except BadRecord:
            return  # its readers among the peers say so
        if isinstance(record, CastMember):
            entries.append((record, message.partition() or 0, message.offset() or 0))
        else:
            audience.take(record)
