"""Reading the bytes that an event describes, and nothing else: below the root, through no link, from one descriptor.

A file that vanished, became something else, or has other bytes than the event says is Torn. A root that is not there
is Away: an unmounted source must not look like a source whose files have all changed, and must not hold up others. A
file that we may not read is Permanent: as Torn it would be asked for, and sent here, for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from headwater.connectors.catalog.files import SourceRow
from headwater.rules.errors import Permanent, Torn, Unavailable
from headwater.rules.identity import content_hash, display

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a fifo must not block us
_CHANGED = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO}
_FORBIDDEN = {errno.EACCES, errno.EPERM}


class Away(Unavailable):
    """The root, its mount or its disk does not give what lies there: its content is put off, all else goes on."""


class Roots:
    """The roots of the sources of one batch: open, or ``away`` with the error that says why."""

    def __init__(self, overrides: Mapping[str, Path], sources: Mapping[str, SourceRow]) -> None:
        self._paths = {name: os.fsencode(overrides.get(name, os.fsdecode(row.root))) for name, row in sources.items()}
        self._open: dict[str, int] = {}
        self.away: dict[str, Away] = {}

    def __enter__(self) -> Roots:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)

    def __contains__(self, source: object) -> bool:
        return source in self._open

    def open_all(self, names: Iterable[str]) -> None:
        """Open these roots, as far as they are there, before threads use them."""
        for name in set(names) - self._open.keys() - self.away.keys():
            try:
                self._open[name] = os.open(self._paths[name], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                self.away[name] = Away(
                    f"its root {display(self._paths[name])} cannot be opened here: {error.strerror}.",
                    asked=f"Upload files of source {name}.",
                    kept="Everything that was sent is kept; its files wait, other sources do not.",
                    advice=f"Mount the source on this host, or set upload.roots.{name} to where it is mounted.",
                )

    @contextmanager
    def file(self, source: str, path: bytes) -> Iterator[int]:
        """A descriptor of a regular file, opened segment by segment without following links. Raises Torn, Away."""
        if source in self.away:
            raise self.away[source]
        *folders, name = path.split(b"/")
        held = [self._open[source]]
        try:
            for folder in folders:
                held.append(os.open(folder, _DIRECTORY, dir_fd=held[-1]))
            held.append(os.open(name, _FILE, dir_fd=held[-1]))
            if not stat.S_ISREG(os.fstat(held[-1]).st_mode):
                raise torn(source, path, "it is no regular file any more")
            yield held[-1]
        except OSError as error:
            if error.errno in _CHANGED:
                raise torn(source, path, f"it cannot be opened ({error.strerror})") from error
            if error.errno in _FORBIDDEN:
                raise Permanent(
                    f"{display(path)} may not be read by user {os.geteuid()}.",
                    asked=f"Upload files of source {source}.",
                    kept="Nothing of it was stored; the path becomes a named exception.",
                    advice="Run the uploader as a user that may read the source, then: headwater dead redrive.",
                ) from error
            raise _failing(error) from error
        finally:
            for descriptor in reversed(held[1:]):
                os.close(descriptor)


def read_exactly(descriptor: int, offset: int, length: int, *, expected: bytes) -> bytes | None:
    """``length`` bytes from ``offset`` if their BLAKE3 is ``expected``, else None. Raises Away."""
    pieces: list[bytes] = []
    missing = length
    while missing:
        try:
            piece = os.pread(descriptor, missing, offset + length - missing)
        except OSError as error:
            raise _failing(error) from error
        if not piece:
            return None
        pieces.append(piece)
        missing -= len(piece)
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return data if content_hash(data) == expected else None


def _failing(error: OSError) -> Away:
    return Away(
        f"the disk or the mount answers: {error.strerror}.",
        asked="Read a file of a source.",
        kept="Everything that was sent is kept; the files wait.",
        advice="Check the disk or the mount of the source.",
    )


def torn(source: str, path: bytes, how: str) -> Torn:
    """The error of a file that is not what its event said."""
    return Torn(
        f"{display(path)} of source {source} changed after it was read: {how}.",
        asked="Upload the content that an event describes.",
        kept="Nothing of it was stored.",
        advice="Nothing to do: the agent is asked to read it again.",
        source=source,
        path=path,
    )
