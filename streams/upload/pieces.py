"""A piece of a batch of changes: what there is to send, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.connectors.catalog.files import SourceRow
from headwater.connectors.catalog.objects import Claim
from headwater.rules.errors import HeadwaterError
from headwater.streams.upload.deferred import Resumed
from headwater.streams.upload.places import Place


@dataclass(frozen=True, slots=True)
class Work:
    """What step 1 found to do: what to send, and where the content of each hash may be read."""

    claims: tuple[Claim, ...]
    places: Mapping[bytes, Sequence[Place]]
    sources: Mapping[str, SourceRow]

    def joined(self, resumed: Resumed) -> Work:
        """With what was put off before; a claim that the batch brings itself is its own."""
        own = {one.hash for one in self.claims}
        more = tuple(one for one in resumed.claims if one.hash not in own)
        return Work(self.claims + more, {**resumed.places, **self.places}, {**resumed.sources, **self.sources})


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one claim. ``torn`` says why its bytes cannot be had, ``away`` why not now; else S3 has them."""

    claim: Claim
    torn: str | None = None
    away: str | None = None


Delivery = tuple[tuple[Sent, ...], HeadwaterError | None]
"""What was done of a piece, and what stopped the rest."""
