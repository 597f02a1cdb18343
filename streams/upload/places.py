"""Where on disk a content may be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from headwater.connectors.catalog import files
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.objects import Claim
from headwater.rules.errors import Torn
from headwater.streams.upload.reading import Away, Roots


class Place(NamedTuple):
    """A path of a source. Whether it still has the content is found out by reading it."""

    source: str
    path: bytes


@dataclass(frozen=True, slots=True)
class Opened:
    """The file that parts of a content are read from, or why there is none: for good (``torn``) or now (``away``)."""

    place: Place
    descriptor: int = -1
    torn: str | None = None
    away: str | None = None


def places_elsewhere(catalog: Catalog, roots: Roots, content: bytes) -> list[Place]:
    """Other paths of the open roots whose newest state has the content: where a file went that was renamed while it
    waited here, or a copy of it. Asked only when a file is torn, so once for a file and not for each.
    """
    with catalog.transaction() as transaction:
        waiting = files.waiting_paths(transaction, [content])
    return [Place(one.source, one.path) for one in waiting if one.source in roots]


def opened(catalog: Catalog, roots: Roots, open_files: ExitStack, claim: Claim, places: Sequence[Place]) -> Opened:
    """One descriptor for all parts of a content, closed with ``open_files``: of the first place that can be opened, or
    else of another path that has the content (it may have been renamed meanwhile)."""
    away, reason = None, "no path has its content any more"
    for place in chain(places, _elsewhere(catalog, roots, claim)):
        try:
            return Opened(place, open_files.enter_context(roots.file(*place)))
        except Torn as error:
            reason = error.happened
        except Away as error:
            away = error.happened
    place = places[0] if places else Place(claim.source, b"")
    return Opened(place, away=away) if away is not None else Opened(place, torn=reason)


def _elsewhere(catalog: Catalog, roots: Roots, claim: Claim) -> Iterator[Place]:
    """Asked only where it is needed."""
    yield from places_elsewhere(catalog, roots, claim.hash)
