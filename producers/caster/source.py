"""The file that is cast: opened once, and watched for whether it is still the same."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from headwater.producers.filesystem.settle import Writers, probe_writers
from headwater.rules.errors import BadSettings, NotFound, Refused

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Without waiting: a pipe that nobody writes into would hold the open for ever."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one state of a file from all others. ctime moves with every write, also where the writer sets the
    modification time back; nobody can set it."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Identity:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def difference(self, now: Identity) -> str:
        """How ``now`` differs, in words; empty where it does not."""
        if (self.device, self.inode) != (now.device, now.inode):
            return "another file has taken its place"
        if self.size != now.size:
            grew = "grew" if now.size > self.size else "shrank"
            return f"it {grew} from {self.size:,} to {now.size:,} bytes"
        if self.mtime_ns != now.mtime_ns:
            return "it was written to"
        if self.ctime_ns != now.ctime_ns:
            return "its change time moved: somebody wrote and set its times back, or changed its permissions or links"
        return ""


class Source:
    """One regular file, open for reading. Symbolic links are followed, and must go on leading to the same file.

    Safe for threads. Raises NotFound, Refused or BadSettings for what cannot be cast.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._asked = f"{path} was to be cast."
        self.descriptor = self._open()
        try:
            found = os.fstat(self.descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise self._no_file(_KINDS.get(stat.S_IFMT(found.st_mode), "no regular file"))
            if self.is_open_for_writing():
                raise Refused(
                    "a process has it open for writing: what it holds now may be half of a file.",
                    asked=self._asked,
                    kept="Nothing was sent.",
                    advice=f"Publish it when its writer has closed it; `fuser -v {path}` names the writer.",
                )
        except BaseException:
            os.close(self.descriptor)
            raise
        self.identity = Identity.of(found)

    def change(self) -> str:
        """Why it is no longer the state that was opened, in words; empty while it is.

        Opens the path afresh: so a network filesystem asks its server (nfs(5), close-to-open).
        """
        try:
            if difference := self.identity.difference(Identity.of(os.fstat(self.descriptor))):
                return difference
            afresh = os.open(self.path, _OPEN)
        except OSError as error:
            return "its path leads nowhere now" if error.errno == errno.ENOENT else f"it answers {error.strerror}"
        try:
            return self.identity.difference(Identity.of(os.fstat(afresh)))
        finally:
            os.close(afresh)

    def is_open_for_writing(self) -> bool:
        """Somebody may write, or have written through a mapping, which moves no time until the kernel writes it out.
        False also where the filesystem cannot tell (NFS)."""
        return probe_writers(self.descriptor) is Writers.some

    def reopened(self) -> int:
        """One more descriptor of the same file, with read-ahead of its own; the caller closes it."""
        return os.open(f"/proc/self/fd/{self.descriptor}", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        os.close(self.descriptor)

    def _open(self) -> int:
        try:
            return os.open(self.path, _OPEN)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(
                "there is no such file.", asked=self._asked, kept="Nothing was sent.", advice="Correct the path."
            ) from error
        except OSError as error:
            if error.errno == errno.ENXIO:  # a socket, or a device without its driver
                raise self._no_file("a socket or a device") from error
            raise Refused(
                f"it cannot be opened: {error.strerror}.",
                asked=self._asked,
                kept="Nothing was sent.",
                advice="Run this as a user who may read the file.",
            ) from error

    def _no_file(self, kind: str) -> BadSettings:
        return BadSettings(
            f"it is {kind}, and a cast sends one file.",
            asked=self._asked,
            kept="Nothing was sent.",
            advice="Name a regular file; pack a directory into one first, for example with `tar`.",
        )
