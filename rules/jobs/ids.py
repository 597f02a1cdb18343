"""Job ids: ``video_`` and a UUID version 7 (RFC 9562, section 5.7), so that they sort by the time of their making."""

from __future__ import annotations

import re

RANDOM_BYTES = 10
_FORM = re.compile(r"video_[0-9a-f]{32}")


def new_job(unix_ms: int, random: bytes) -> str:
    """The id of a job made at ``unix_ms``; ``random`` are RANDOM_BYTES random bytes."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"an id takes {RANDOM_BYTES} random bytes, not {len(random)}")
    number = unix_ms << 80 | int.from_bytes(random, "big")
    number = number & ~(0xF << 76) | 0x7 << 76  # version
    number = number & ~(0x3 << 62) | 0x2 << 62  # variant
    return f"video_{number:032x}"


def is_job(text: str) -> bool:
    """Has it the form of an id? What has not is no job, and is not looked for."""
    return _FORM.fullmatch(text) is not None
