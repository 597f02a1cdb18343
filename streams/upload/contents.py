"""The bytes of a whole content, from whichever path has them."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.objects import Claim
from headwater.rules.errors import Torn
from headwater.streams.upload.places import Place, places_elsewhere
from headwater.streams.upload.reading import Away, Roots, read_exactly, torn


def read_content(catalog: Catalog, roots: Roots, claim: Claim, places: Sequence[Place]) -> bytes:
    """The content from the first of these places that has it, or else from another that the catalog knows of.

    Raises Away where a place that may have it cannot be looked at now, else Torn.
    """
    try:
        return _read_first(roots, claim, places)
    except (Torn, Away) as error:
        others = [one for one in places_elsewhere(catalog, roots, claim.hash) if one not in places]
        if not others:
            raise
        try:
            return _read_first(roots, claim, others)
        except Torn as torn_too:
            raise (error if isinstance(error, Away) else torn_too) from None


def _read_first(roots: Roots, claim: Claim, places: Sequence[Place]) -> bytes:
    """The content from the first of the places that has it. Raises Away for a place that cannot be looked at, else Torn
    for the last of them."""
    away: Away | None = None
    failure = torn(claim.source, b"", "no path has its content any more")
    for place in places:
        try:
            with roots.file(*place) as descriptor:
                data = read_exactly(descriptor, 0, claim.size, expected=claim.hash)
        except Torn as error:
            failure = error
        except Away as error:
            away = error
        else:
            if data is not None:
                return data
            failure = torn(*place, "its bytes are others")
    raise away or failure
