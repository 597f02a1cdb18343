"""Clocks and identities: how a file state, its bytes, and its place in a dataset are named.

A *file state* is named by (source, path, Clock). Its *bytes* are named by their BLAKE3 hash, and stored as a numbered
generation of an object. Its *place in lakeFS* is derived from source and path, reversibly where the store can hold
the name, by a short hashed form where it cannot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from blake3 import blake3

HASH_BYTES = 32
MAX_KEY_BYTES = 1024
"""S3 keys and lakeFS paths hold at most 1,024 bytes of UTF-8."""

OBJECTS = "objects/"
"""What every object key begins with."""

_OBJECT_KEY = re.compile(OBJECTS + r"([0-9a-f]{2})/(\1[0-9a-f]{62})\.([1-9][0-9]{0,8})", re.ASCII)
_HASHED_FORM = re.compile(r"~[0-9a-f]{16}\Z")


@dataclass(frozen=True, slots=True, order=True)
class Clock:
    """The order of states of one source. ``epoch`` changes with the owner of the source, ``seq`` with each change.

    Never a wall clock: of two states of a path, the one with the larger Clock is newer, whatever arrives first.
    """

    epoch: int
    seq: int


def content_hash(data: bytes) -> bytes:
    """BLAKE3 (32 bytes) of ``data``, the identity of file content."""
    return blake3(data).digest()


def object_key(content: bytes, generation: int) -> str:
    """S3 key of one generation of an object; two hex digits first, so that keys spread over prefixes.

    A corrupt object is never overwritten: its successor has the next generation, hence another key.
    """
    digits = content.hex()
    return f"{OBJECTS}{digits[:2]}/{digits}.{generation}"


def object_of(key: str) -> tuple[bytes, int] | None:
    """The content and the generation of an object_key; None for any other key."""
    named = _OBJECT_KEY.fullmatch(key)
    return (bytes.fromhex(named[2]), int(named[3])) if named else None


def change_key(source: str, path: bytes) -> bytes:
    """Kafka key of a path's changes: one partition sees all changes of a path, in order."""
    return source.encode() + b"\x00" + path


def subject_of(key: bytes) -> tuple[str, bytes] | None:
    """The source and the path of a change_key; None for any other key."""
    source, separator, path = key.partition(b"\x00")
    try:
        return (source.decode(), path) if source and separator and path else None
    except UnicodeDecodeError:
        return None


def display(path: bytes) -> str:
    """A path for people: UTF-8 where it is, escapes where it is not or where a terminal would misbehave.

    For reading only: two different paths may in theory share a display form, so nothing compares it.
    """
    text = path.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text  # nearly always: every record has one
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _holds(text: str) -> bool:
    """Can every store we use hold this path byte for byte?"""
    return (
        len(text.encode()) <= MAX_KEY_BYTES
        and all(ord(c) >= 32 and ord(c) != 127 for c in text)
        and not _HASHED_FORM.search(text)
    )


def dataset_path(source: str, path: bytes) -> str:
    """Where a file lies in its dataset: ``<source>/<path>``, or ``<safe prefix>~<16 hex>`` where that cannot be held.

    Injective up to a 64-bit hash collision: a real name that looks like a hashed form is hashed too.
    The true path stays in the manifest.
    """
    try:
        text = f"{source}/{path.decode('utf-8')}"
    except UnicodeDecodeError:
        text = ""
    if text and _holds(text):
        return text
    readable = f"{source}/{path.decode('utf-8', 'replace')}"
    safe = "".join(c if ord(c) >= 32 and ord(c) != 127 and c != "\ufffd" else "_" for c in readable)
    suffix = "~" + blake3(source.encode() + b"\x00" + path).digest()[:8].hex()
    prefix = safe.encode()[: 512 - len(suffix)].decode("utf-8", "ignore")
    return prefix + suffix
