"""Where on disk a content may be read."""

from __future__ import annotations

from typing import NamedTuple

from headwater.connectors.catalog import files
from headwater.connectors.catalog.client import Catalog
from headwater.streams.upload.reading import Roots


class Place(NamedTuple):
    """A path of a source. Whether it still has the content is found out by reading it."""

    source: str
    path: bytes


def places_elsewhere(catalog: Catalog, roots: Roots, content: bytes) -> list[Place]:
    """Other paths of the open roots whose newest state has the content: where a file went that was renamed while it
    waited here, or a copy of it. Asked only when a file is torn, so once for a file and not for each.
    """
    with catalog.transaction() as transaction:
        waiting = files.waiting_paths(transaction, [content])
    return [Place(one.source, one.path) for one in waiting if one.source in roots]
