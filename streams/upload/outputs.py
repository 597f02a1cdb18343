"""Asking a source for paths again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.connectors.catalog.files import WaitingPath
from headwater.schemas.records import RequestReason
from headwater.schemas.topics import SYNC_REQUESTS
from headwater.streams.runtime.processor import Input, Output


def requests_for(
    waiting: Iterable[WaitingPath], causes: Mapping[bytes, Input], reason: RequestReason = RequestReason.torn
) -> list[Output]:
    """One request for each path whose newest state waits for content that no object has. ``causes`` by content."""
    return [Output(SYNC_REQUESTS, one.request(reason), causes.get(one.hash)) for one in waiting]
