"""What somebody asks the caster for, checked before anything is written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headwater.rules.cast.chunks import Chunks, chunk_bytes_for
from headwater.rules.errors import BadSettings
from headwater.schemas.cast_manifest import RACK, plain_file_name
from headwater.schemas.cast_view import ORIGIN

_NAME = re.compile(r"(?!\d+$)[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
"""It becomes a part of file names on every peer, and stands where a cast's number may stand too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The cast ``name`` of a file that peers shall call ``file_name``.

    ``targets``: hosts, and racks as ``rack:NAME``; none: every peer. ``origin``: the name of this host among the peers.
    ``chunk_bytes`` None: chosen by the file's size. Raises BadSettings.
    """

    name: str
    file_name: str
    targets: tuple[str, ...]
    origin: str
    expires_seconds: float
    chunk_bytes: int | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise self._refused(
                f"{self.name!r} cannot name a cast.",
                "Use up to 100 ASCII letters, digits, '-', '_' and '.': a letter or digit first, and not only digits.",
            )
        if not plain_file_name(self.file_name):
            raise self._refused(
                f"peers cannot call the file {self.file_name!r}.",
                "Give it a name for them with --as: UTF-8 of up to 255 bytes, without '/'.",
            )
        if bad := [target for target in self.targets if not target or target == RACK or "," in target]:
            raise self._refused(
                f"{bad[0]!r} is no target.", f"Name hosts, and racks as {RACK}NAME, with commas between them."
            )
        if not self.origin or ORIGIN in self.origin:
            raise self._refused(f"{self.origin!r} cannot name this host.", "Set peer.host to a name without '/'.")
        if self.expires_seconds <= 0:
            raise self._refused("it would expire at once.", "Give it some time with --expires, such as 24h.")

    def chunks(self, size: int) -> Chunks:
        """How a file of ``size`` bytes is cut. Raises BadSettings."""
        return Chunks(size, chunk_bytes_for(size) if self.chunk_bytes is None else self.chunk_bytes)

    def _refused(self, happened: str, advice: str) -> BadSettings:
        return BadSettings(
            happened, asked=f"A file was to be cast as {self.name!r}.", kept="Nothing was sent.", advice=advice
        )
