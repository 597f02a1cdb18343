"""Records that were given up, as records of ``dead.letters``: with their origin, bytes, headers, and what happened.

A letter must fit into one message whatever it is about, or its group could not go on: what is too long is cut, and the
letter says by how much. The whole record stays in its topic, where redriving takes it from.
"""

from __future__ import annotations

import traceback

from headwater.connectors.kafka.headers import redrives
from headwater.schemas.records import DeadLetter, Header
from headwater.streams.runtime.processor import Input

VALUE_BYTES = 256 * 1024
KEY_BYTES = 32 * 1024
HEADER_BYTES = 32 * 1024
"""With the texts below 400 KiB: brokers take 1 MiB by default. Records of ours are below 20 KiB."""
_MESSAGE_CHARACTERS = 4_096
_STACK_CHARACTERS = 16_384


def dead_letter(dead: Input, group: str, error: BaseException) -> DeadLetter:
    key, value, headers = dead.key, dead.value, dead.headers
    kept_key = None if key is None else key[:KEY_BYTES]
    kept_value = None if value is None else value[:VALUE_BYTES]
    kept_headers = headers if _size(headers) <= HEADER_BYTES else []
    cut_bytes = (
        len(key or b"") + len(value or b"") + _size(headers)
        - len(kept_key or b"") - len(kept_value or b"") - _size(kept_headers)
    )  # fmt: skip
    return DeadLetter(
        topic=dead.topic,
        partition=dead.partition,
        offset=dead.offset,
        group=group,
        original_key=kept_key,
        value=kept_value,
        headers=tuple(Header(name=name, value=value) for name, value in kept_headers),
        error=type(error).__name__,
        message=str(error)[:_MESSAGE_CHARACTERS],
        # The end says what was raised and where.
        stack="".join(traceback.format_exception(error))[-_STACK_CHARACTERS:],
        redrives=redrives(headers),
        cut_bytes=cut_bytes,
    )


def _size(headers: list[tuple[str, bytes | None]]) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)
