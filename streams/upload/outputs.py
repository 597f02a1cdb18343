"""Asking a source for paths again."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.connectors.catalog.files import WaitingPath
from headwater.rules.identity import display
from headwater.schemas.records import RequestReason, SyncRequest
from headwater.schemas.topics import SYNC_REQUESTS
from headwater.streams.runtime.processor import Output


def requests_for(waiting: Iterable[WaitingPath], reason: RequestReason = RequestReason.torn) -> list[Output]:
    """One request for each path whose newest state waits for content that no object has."""
    return [
        Output(
            SYNC_REQUESTS,
            SyncRequest(
                source=one.source,
                path=one.path,
                display=display(one.path),
                epoch=one.epoch,
                seq=one.seq,
                reason=reason,
                detail=f"no stored object has content {one.hash.hex()}",
            ),
        )
        for one in waiting
    ]
