"""One read of a file that proves itself: hash and parts of one state, or the reason why there is none yet.

A state is one whole state of the file when, on one descriptor, (1) it was quiet, (2) no writer held it before,
(3) every byte was read, (4) no writer held it after, (5) a stat after equals the stat before. Without leases 2 and 4
are unknown, the quiet time is longer, and the guarantee is called weak.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from blake3 import blake3

from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.settle import Candidate, Writers, observe, probe_writers, readable_at
from headwater.producers.filesystem.tree import GONE, Attributes, Entry, Signature, Tree, entry_of, signature_of
from headwater.rules.chunking import MIB, PartSizes, next_part, part_sizes
from headwater.schemas.records import FileType

_READ_BYTES = 4 * MIB
"""One read call: large enough that hashing, not calling, is the cost; small enough to stay in the processor's cache."""

_ZEROS = bytes(_READ_BYTES)

_LARGE = blake3.AUTO
"""Threads of one large file's hash: every core."""


@dataclass(frozen=True, slots=True)
class Part:
    offset: int
    length: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Content:
    """What is known of a file's bytes. ``parts`` is None where they were cut by an earlier read (``part_count``)."""

    hash: bytes
    part_count: int
    parts: tuple[Part, ...] | None


@dataclass(frozen=True, slots=True)
class Reading:
    """One whole state of a path. A symbolic link has a target instead of content."""

    candidate: Candidate
    file_type: FileType
    signature: Signature
    attributes: Attributes
    content: Content | None
    link_target: bytes | None
    strong: bool


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Not yet: look again at ``due_at``. The candidate carries what was observed."""

    candidate: Candidate
    due_at: float
    reason: str


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Its source says that it is not complete: it is named at once, and looked at again now and then."""

    candidate: Candidate
    reason: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    candidate: Candidate
    reason: str


@dataclass(frozen=True, slots=True)
class Changed:
    """The path is gone, or is no file or link any more: take a fresh look."""

    candidate: Candidate


Outcome = Reading | Unsettled | Incomplete | Unreadable | Changed


def read_path(
    tree: Tree,
    candidate: Candidate,
    known: dict[Signature, Content],
    config: AgentConfig,
    clock: Callable[[], float],
) -> Outcome:
    """Read one path, in whatever thread. ``known``: content that needs no reading where the signature is the same."""
    try:
        entry = tree.stat(candidate.path)
        if entry.file_type is FileType.symlink:
            target = tree.link_target(candidate.path)
            return Reading(candidate, FileType.symlink, entry.signature, entry.attributes, None, target, strong=True)
        if entry.file_type is not FileType.regular:
            return Changed(candidate)
        descriptor = tree.open_file(candidate.path)
    except GONE:
        return Changed(candidate)
    except OSError as error:
        return Unreadable(candidate, f"unreadable: {error.strerror}")
    try:
        return _read_open_file(tree, descriptor, candidate, known, config, clock)
    except OSError as error:
        return Unreadable(candidate, f"unreadable: {error.strerror}")
    finally:
        os.close(descriptor)


def _read_open_file(
    tree: Tree,
    descriptor: int,
    candidate: Candidate,
    known: dict[Signature, Content],
    config: AgentConfig,
    clock: Callable[[], float],
) -> Outcome:
    now = clock()
    before = entry_of(candidate.path, os.fstat(descriptor))
    observed = replace(candidate, observation=observe(candidate.observation, before.signature, now))
    assert observed.observation is not None
    writers = probe_writers(descriptor)
    if writers is Writers.some:
        return Unsettled(observed, now + config.settle_seconds, "busy: a process has it open for writing")
    settle_seconds = config.settle_seconds if writers is Writers.none else config.weak_settle_seconds
    due_at = readable_at(observed.observation, settle_seconds)
    if due_at > now:
        return Unsettled(observed, due_at, "busy: it keeps changing")

    content = known.get(before.signature) or read_content(descriptor, before.signature.size)

    after = entry_of(candidate.path, os.fstat(descriptor))
    strong = writers is Writers.none
    there = _still_there(tree, after) if strong else _there_afresh(tree, after)
    if content is None or after.signature != before.signature or not there:
        moved = replace(candidate, observation=observe(observed.observation, after.signature, clock()))
        return Unsettled(moved, clock() + config.settle_seconds, "busy: it changed while it was read")
    if probe_writers(descriptor) is not writers:
        return Unsettled(observed, clock() + config.settle_seconds, "busy: a process opened it while it was read")
    return Reading(candidate, FileType.regular, after.signature, after.attributes, content, None, strong)


def _still_there(tree: Tree, read: Entry) -> bool:
    """Does the path still name the file that was read?"""
    try:
        return tree.stat(read.path).signature == read.signature
    except GONE:
        return False


def _there_afresh(tree: Tree, read: Entry) -> bool:
    """The same where attributes may be remembered: opening a file anew asks the server (nfs(5), close-to-open)."""
    try:
        descriptor = tree.open_file(read.path)
    except GONE:
        return False
    try:
        return signature_of(os.fstat(descriptor)) == read.signature
    finally:
        os.close(descriptor)


def read_content(descriptor: int, size: int) -> Content | None:
    """Hash (and, above 64 MiB, cut) exactly ``size`` bytes; None where the file turned out longer or shorter.

    Memory: one read buffer, and for a large file one window of the largest part.
    """
    sizes = part_sizes(size)
    if sizes is None:
        return _read_whole(descriptor, size)
    if sizes.minimum == sizes.maximum:
        return _read_in_fixed_parts(descriptor, size, sizes.maximum)
    return _read_in_parts(descriptor, size, sizes)


def _blocks(descriptor: int) -> Iterator[memoryview]:
    """The file from its start, in a buffer that is used again and again."""
    buffer = memoryview(bytearray(_READ_BYTES))
    offset = 0
    while count := _read_at(descriptor, buffer, offset):
        yield buffer[:count]
        offset += count


def _read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Bytes read into the buffer; 0 at the end. What lies in a hole of a sparse file is zeros, without a read."""
    hole = min(len(buffer), _next_data(descriptor, offset) - offset)
    if hole <= 0:
        return os.preadv(descriptor, [buffer], offset)
    for start in range(0, hole, _READ_BYTES):
        stop = min(hole, start + _READ_BYTES)
        buffer[start:stop] = _ZEROS[: stop - start]
    return hole


def _next_data(descriptor: int, offset: int) -> int:
    """Where the next byte lies that is in no hole: the end of the file where there is none."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return os.fstat(descriptor).st_size
        return offset  # a filesystem that knows no holes


def _read_whole(descriptor: int, size: int) -> Content | None:
    hasher, length = blake3(), 0
    if size < _READ_BYTES:
        data = os.pread(descriptor, size + 1, 0)
        return Content(blake3(data).digest(), 0, ()) if len(data) == size else None
    for block in _blocks(descriptor):
        hasher.update(block)
        length += len(block)
        if length > size:
            return None
    return Content(hasher.digest(), 0, ()) if length == size else None


def _read_in_parts(descriptor: int, size: int, sizes: PartSizes) -> Content | None:
    whole = blake3(max_threads=_LARGE)
    window = memoryview(bytearray(sizes.maximum))
    parts: list[Part] = []
    empty = b""
    offset, filled = 0, 0
    while offset < size:
        wanted = min(sizes.maximum, size - offset)
        is_hole = _next_data(descriptor, offset) >= offset + wanted
        while filled < wanted:
            count = _read_at(descriptor, window[filled:wanted], offset + filled)
            if not count:
                return None
            whole.update(window[filled : filled + count])
            filled += count
        if is_hole and wanted == sizes.maximum:  # zeros have no cut before the maximum, and always the same hash
            length = wanted
            digest = empty = empty or blake3(window[:length], max_threads=_LARGE).digest()
        else:
            length = next_part(window[:wanted], size - offset, len(parts), sizes)
            digest = blake3(window[:length], max_threads=_LARGE).digest()
        parts.append(Part(offset, length, digest))
        window[: filled - length] = window[length:filled]
        offset, filled = offset + length, filled - length
    if os.pread(descriptor, 1, size):
        return None
    return Content(whole.digest(), len(parts), tuple(parts))


def _read_in_fixed_parts(descriptor: int, size: int, part_bytes: int) -> Content | None:
    """Parts that are too large for a window: each is hashed as it comes, block by block."""
    whole, part = blake3(max_threads=_LARGE), blake3(max_threads=_LARGE)
    parts: list[Part] = []
    start, end = 0, 0
    for block in _blocks(descriptor):
        whole.update(block)
        while len(block):
            taken = block[: part_bytes - (end - start)]
            part.update(taken)
            end += len(taken)
            block = block[len(taken) :]
            if end - start == part_bytes or end == size:
                parts.append(Part(start, end - start, part.digest()))
                part.reset()
                start = end
        if end > size:
            return None
    return Content(whole.digest(), len(parts), tuple(parts)) if end == size and start == size else None
