"""Where large content is cut into parts: by what it contains, so that an insertion moves only the cuts beside it.

The cut rule is FastCDC (Xia et al., USENIX ATC 2016), as the ``fastcdc`` package computes it: after ``minimum`` bytes,
cut where a rolling hash of the last 31 bytes ends in enough zero bits, or at ``maximum``. The same bytes always give
the same cuts, on every host and in every release: the sizes below are part of the stored format.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastcdc import fastcdc

MIB = 1024 * 1024

WHOLE_BYTES = 64 * MIB
"""Content up to this size is sent whole: one request, one checksum, no multipart state."""

MAX_PARTS = 10_000
"""S3 completes a multipart upload of at most this many parts."""

LARGE_BYTES = 80_000_000_000
"""Above this size, parts grow with the content so that MAX_PARTS suffice."""

FIXED_BYTES = 8 * LARGE_BYTES
"""Above this size a part would be larger than FastCDC can look for a cut: parts are of one fixed size."""


@dataclass(frozen=True, slots=True)
class PartSizes:
    """Bytes of a part. Every part but the last has at least ``minimum`` (S3 wants 5 MiB) and at most ``maximum``."""

    minimum: int
    average: int
    maximum: int


def part_sizes(content_bytes: int) -> PartSizes | None:
    """The sizes for content of this length; None where it is sent whole.

    Steps double: content that grows keeps its cuts until it crosses a step.
    """
    if content_bytes <= WHOLE_BYTES:
        return None
    if content_bytes > FIXED_BYTES:
        fixed = -(-content_bytes // MAX_PARTS)
        fixed = -(-fixed // MIB) * MIB
        return PartSizes(fixed, fixed, fixed)
    scale = 1
    while content_bytes > scale * LARGE_BYTES:
        scale *= 2
    return PartSizes(5 * MIB * scale, 8 * MIB * scale, 16 * MIB * scale)


def next_part(window: memoryview, remaining: int, parts_before: int, sizes: PartSizes) -> int:
    """Length of the next part.

    ``window`` starts where the part starts and holds the first ``min(sizes.maximum, remaining)`` bytes of what is
    left; ``remaining`` is how many are left; ``parts_before`` how many parts were cut already. Content that asks for a
    cut at every minimum would need more than MAX_PARTS: once only parts of ``maximum`` still fit, they are taken.
    """
    parts_left = MAX_PARTS - parts_before
    if remaining > (parts_left - 1) * sizes.maximum or sizes.minimum == sizes.maximum:
        return min(sizes.maximum, remaining)
    if remaining <= sizes.minimum:
        return remaining
    first = next(fastcdc(window[: sizes.maximum], sizes.minimum, sizes.average, sizes.maximum))
    return int(first.length)
