"""Records that were given up, as records of ``dead.letters``: with their origin, bytes, headers, and what happened."""

from __future__ import annotations

import traceback

from headwater.connectors.kafka.headers import redrives
from headwater.schemas.records import DeadLetter, Header
from headwater.streams.runtime.processor import Input


def dead_letter(dead: Input, group: str, error: BaseException) -> DeadLetter:
    return DeadLetter(
        topic=dead.topic,
        partition=dead.partition,
        offset=dead.offset,
        group=group,
        original_key=dead.key,
        value=dead.value,
        headers=tuple(Header(name=name, value=value) for name, value in dead.headers),
        error=type(error).__name__,
        message=str(error),
        stack="".join(traceback.format_exception(error)),
        redrives=redrives(dead.headers),
    )
