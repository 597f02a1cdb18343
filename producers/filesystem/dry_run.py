"""What an agent would do, without owning, reading or sending anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.producers.filesystem.config import AgentConfig, checked
from headwater.producers.filesystem.filters import Filters
from headwater.producers.filesystem.index.files import Files
from headwater.producers.filesystem.notice import is_as_sent
from headwater.producers.filesystem.tree import GONE, Tree


@dataclass(frozen=True, slots=True)
class Planned:
    """One path and what would be done: ``new``, ``read`` (changed, or perhaps), ``missing`` (held, then deleted),
    ``excluded``, ``special`` or ``unreadable`` (named, not carried)."""

    path: bytes
    action: str
    size: int = 0
    detail: str = ""


def dry_run(config: AgentConfig) -> Iterator[Planned]:
    """Every path that is not as the index has it, directory by directory. Raises like the agent for a wrong config.

    Works beside a running agent: the index is opened for reading only.
    """
    config = checked(config)
    tree, filters = Tree(config.root), Filters(config.include, config.exclude)
    index = config.state_folder / "index.sqlite"
    if not index.exists():
        yield from _walk(tree, filters, None)
        return
    database = sqlite3.connect(f"{index.as_uri()}?mode=ro", uri=True)
    try:
        files = Files(database, read_only=True)
        yield from _walk(tree, filters, files)
        yield from _missing(tree, files)
    finally:
        database.close()


def _walk(tree: Tree, filters: Filters, files: Files | None) -> Iterator[Planned]:
    waiting = [b""]
    while waiting:
        directory = waiting.pop()
        try:
            for entry in tree.entries(directory):
                known = files.get(entry.path) if files else None
                if entry.is_directory:
                    if filters.takes_directory(entry.path):
                        waiting.append(entry.path)
                    else:
                        yield Planned(entry.path, "excluded")
                elif not filters.takes_file(entry.path):
                    yield Planned(entry.path, "excluded", entry.signature.size)
                elif entry.special is not None:
                    yield Planned(entry.path, "special", detail=entry.special)
                elif known is None:
                    yield Planned(entry.path, "new", entry.signature.size)
                elif not is_as_sent(known, entry):
                    yield Planned(entry.path, "read", entry.signature.size)
        except OSError as error:
            yield Planned(directory, "unreadable", detail=error.strerror or str(error))


def _missing(tree: Tree, files: Files) -> Iterator[Planned]:
    for known in files.all():
        try:
            tree.stat(known.path)
        except GONE:
            yield Planned(known.path, "missing", known.signature.size)
        except OSError:
            continue  # its directory was named as unreadable
