"""May this schema be published? For development: CI runs it, no process of ours imports it (it needs ``avro``).

Three rules hold the log readable for ever:

1. every ``<name>.avsc`` equals the newest of its name in ``history/`` (what we write is what we published);
2. files in ``history/`` never change: each one has its SHA-256 in ``history/SHA256SUMS``, and ids have no gaps;
3. of any two schemas of a name, each one reads what the other wrote (FULL_TRANSITIVE in the words of Avro registries):
   old records stay readable, and a process that was not upgraded yet reads the records of one that was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

CHECKSUMS = "SHA256SUMS"


def problems(folder: Path) -> list[str]:
    """What forbids publishing the schemas in ``folder``, a sentence each; empty when all is well."""
    published = _published(folder / "history")
    return [
        *_unpublished(folder, published),
        *_rewritten(folder / "history"),
        *(problem for files in published.values() for problem in _unreadable(files)),
    ]


def reads(reader: str, writer: str) -> list[str]:
    """Why a reader with the schema ``reader`` cannot read what was written with ``writer``; empty when it can."""
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    result = checker.get_compatibility(avro.schema.parse(reader), avro.schema.parse(writer))
    if result.compatibility is SchemaCompatibilityType.compatible:
        return []
    return sorted(result.messages)


def _published(history: Path) -> dict[str, list[Path]]:
    """The files of history by record name, oldest first."""
    found: dict[str, list[Path]] = {}
    for file in sorted(history.glob("*.avsc")):
        found.setdefault(file.stem.partition("-")[2], []).append(file)
    return found


def _unpublished(folder: Path, published: dict[str, list[Path]]) -> Iterator[str]:
    current = {file.stem: file for file in sorted(folder.glob("*.avsc"))}
    for name, file in current.items():
        if name not in published:
            yield f"{file.name} is not in history: publish it under the next id."
        elif file.read_bytes() != published[name][-1].read_bytes():
            yield f"{file.name} differs from {published[name][-1].name}: publish the change under the next id."
    for name in published.keys() - current.keys():
        yield f"{published[name][-1].name} has no {name}.avsc beside history: records of it can still be on the log."


def _rewritten(history: Path) -> Iterator[str]:
    listed = {}
    for line in (history / CHECKSUMS).read_text("utf-8").splitlines():
        checksum, _, name = line.partition("  ")
        listed[name] = checksum
    present = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(history.glob("*.avsc"))}
    for name in sorted(listed.keys() | present.keys()):
        if name not in present:
            yield f"history/{name} was published and is gone: restore it."
        elif name not in listed:
            yield f"history/{name} is not in {CHECKSUMS}: add its line when you publish it."
        elif listed[name] != present[name]:
            yield f"history/{name} was changed after it was published: restore it, publish the change anew."
    numbers = [int(name.partition("-")[0]) for name in sorted(present)]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the ids of history are {numbers}: they count from 1, each once."


def _unreadable(files: list[Path]) -> Iterator[str]:
    for reader, writer in permutations(files, 2):
        for reason in reads(reader.read_text("utf-8"), writer.read_text("utf-8")):
            yield f"{reader.name} cannot read what {writer.name} wrote: {reason}"
