"""A folder that never rests: whole, closed writes of every kind that people and programs make, each one journalled."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

from blake3 import blake3

from chaos.journal import Journal, State

MEBIBYTE = 1024 * 1024
LARGE_BYTES = 66 * MEBIBYTE
"""Above the 64 MiB from which on a file is sent in parts."""

_NAMES = [
    *(f"clip {number}.mov".encode() for number in range(24)),
    b"caf\xc3\xa9 \xf0\x9f\x8e\xac.png",
    b"latin-\xe9\xff.txt",
    b"line\nbreak",
    b"tab\tand\x7fdelete",
    b"looks hashed~0123456789abcdef",
    b" leading, trailing ",
    b"100%25 #1 ? & + = \\ ' \" ;",
    b"-rf",
    b"n" * 255,
]
_FOLDERS = [*(f"day {number}".encode() for number in range(6)), b"d\xc3\xa9j\xc3\xa0", b"\xfe", b"f" * 200]


class Workload:
    """``seed`` decides every operation; how they fall between the agent's looks does not repeat."""

    def __init__(self, root: Path, seed: int, *, files: int = 300, pause_seconds: float = 0.05) -> None:
        self.journal = Journal(log=root.parent / "journal.log")
        self.large_files = 0
        self._root = os.fsencode(root)
        self._outside = os.fsencode(root.parent / "outside")
        os.makedirs(self._outside, exist_ok=True)
        self._random = Random(seed)
        self._most_files = files
        self._pause_seconds = pause_seconds
        self._contents: list[bytes] = [b"", b"the same everywhere"]
        self._away: dict[bytes, dict[bytes, State]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def start(self, *, large_every: int) -> None:
        """Edit in a thread until ``stop``; one operation in ``large_every`` is about a large file."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=[large_every], name="workload")
        self._thread.start()

    def stop(self) -> None:
        """Raises what the thread met."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self, large_every: int) -> None:
        try:
            number = 0
            while not self._stop.is_set():
                number += 1
                if number % large_every == 0:
                    self.large()
                else:
                    self.change()
                self._stop.wait(self._random.choice((0, 0, self._pause_seconds, 4 * self._pause_seconds)))
        except BaseException as failure:
            self._failure = failure

    def change(self) -> None:
        """One operation, chosen at random."""
        if len(self.journal.now()) > self._most_files:
            self.delete()
            return
        self._random.choice(
            [self.write] * 6
            + [self.replace, self.append, self.overwrite, self.overwrite, self.truncate, self.touch, self.chmod]
            + [self.rename, self.rename, self.hard_link, self.symbolic_link, self.delete, self.delete]
            + [self.move_folder, self.move_out_or_in, self.delete_folder]
        )()

    # Whole files

    def write(self) -> None:
        path = self._new_path()
        if self._is_folder(path):
            return
        self._make_parent(path)
        if os.path.islink(self._full(path)):
            os.unlink(self._full(path))
            self.journal.note(path, None)
        with open(self._full(path), "wb") as file:
            file.write(self._content())
        self._note_file(path)

    def replace(self) -> None:
        """As editors save: written beside, renamed over."""
        path = self._new_path()
        if self._is_folder(path):
            return
        self._make_parent(path)
        draft = os.path.join(os.path.dirname(self._full(path)), b"draft.tmp")
        with open(draft, "wb") as file:
            file.write(self._content())
        os.replace(draft, self._full(path))
        self._note_file(path)

    def append(self) -> None:
        if path := self._a_file():
            with open(self._full(path), "ab") as file:
                file.write(self._random.randbytes(self._random.randrange(1, 500)))
            self._note_file(path)

    def overwrite(self) -> None:
        """In place, half of the time with the old time stamps put back."""
        if path := self._a_file():
            before = os.stat(self._full(path))
            with open(self._full(path), "r+b") as file:
                file.seek(self._random.randrange(before.st_size + 1))
                file.write(self._random.randbytes(self._random.randrange(1, 100)))
            self._note_file(path)
            if self._random.random() < 0.5:
                os.utime(self._full(path), ns=(before.st_atime_ns, before.st_mtime_ns))

    def truncate(self) -> None:
        if path := self._a_file():
            os.truncate(self._full(path), self._random.randrange(20))
            self._note_file(path)

    def touch(self) -> None:
        if path := self._a_file():
            os.utime(self._full(path))

    def chmod(self) -> None:
        if path := self._a_file():
            os.chmod(self._full(path), self._random.choice((0o600, 0o644, 0o640, 0o444)))

    def delete(self) -> None:
        if now := sorted(self.journal.now()):
            path = self._random.choice(now)
            os.unlink(self._full(path))
            self.journal.note(path, None)

    def large(self) -> None:
        """A new large file, or an edit, a rename or a copy of one."""
        found = [path for path in sorted(self.journal.now()) if self._size(path) >= LARGE_BYTES]
        if len(found) > 2:
            os.unlink(self._full(found[0]))
            self.journal.note(found.pop(0), None)
        choice = self._random.randrange(4) if found else 0
        path = f"large {self._random.randrange(6)}.mxf".encode()
        self.large_files += 1
        if choice == 0:
            self._write_large(path)
        elif choice == 1:
            with open(self._full(found[0]), "r+b") as file:
                file.seek(self._random.randrange(LARGE_BYTES - MEBIBYTE))
                file.write(self._random.randbytes(MEBIBYTE))
            self._note_file(found[0])
        elif choice == 2:
            self._rename(found[0], path)
        else:
            shutil.copyfile(self._full(found[0]), self._full(path)) if path != found[0] else None
            self._note_file(path)

    def _write_large(self, path: bytes) -> None:
        with open(self._full(path), "wb") as file:
            for _ in range(LARGE_BYTES // MEBIBYTE + self._random.randrange(8)):
                file.write(self._random.randbytes(MEBIBYTE))
        self._note_file(path)

    # Names

    def rename(self) -> None:
        if path := self._a_file():
            target = self._new_path()
            if not self._is_folder(target):
                self._make_parent(target)
                self._rename(path, target)

    def _rename(self, path: bytes, target: bytes) -> None:
        full, there = self._full(path), self._full(target)
        if os.path.lexists(there) and os.path.samestat(os.lstat(full), os.lstat(there)):
            return  # two names of one file: rename does nothing
        os.rename(full, there)
        self.journal.note(target, self.journal.now()[path])
        self.journal.note(path, None)

    def hard_link(self) -> None:
        path, target = self._a_file(), self._new_path()
        if path and not os.path.lexists(self._full(target)):
            self._make_parent(target)
            os.link(self._full(path), self._full(target))
            self.journal.note(target, self.journal.now()[path])

    def symbolic_link(self) -> None:
        path = self._new_path()
        if not os.path.lexists(self._full(path)):
            self._make_parent(path)
            target = self._random.choice((b"nowhere", b"..", b"/etc/hostname", b"\xff"))
            os.symlink(target, self._full(path))
            self.journal.note(path, State(target=target))

    # Folders

    def move_folder(self) -> None:
        if folder := self._a_folder():
            target = self._random.choice(_FOLDERS)
            if self._random.random() < 0.4:
                target = os.path.join(self._random.choice(_FOLDERS), b"moved")
            if target != folder and not target.startswith(folder + b"/") and not os.path.lexists(self._full(target)):
                self._make_parent(target)
                states = dict(self._below(folder))
                os.rename(self._full(folder), self._full(target))
                self._arrive(target, states)
                self._leave(folder, states)

    def move_out_or_in(self) -> None:
        """A tree leaves the source by a rename, or comes back by one."""
        if self._away and self._random.random() < 0.6:
            name = self._random.choice(sorted(self._away))
            target = self._random.choice(_FOLDERS)
            if not os.path.lexists(self._full(target)):
                os.rename(os.path.join(self._outside, name), self._full(target))
                self._arrive(target, self._away.pop(name))
        elif len(self._away) < 4 and (folder := self._a_folder()):
            states = dict(self._below(folder))
            name = f"{self._random.getrandbits(60):x}".encode()
            os.rename(self._full(folder), os.path.join(self._outside, name))
            self._leave(folder, states)
            self._away[name] = states

    def delete_folder(self) -> None:
        if self._random.random() < 0.3 and (folder := self._a_folder()):
            states = dict(self._below(folder))
            shutil.rmtree(self._full(folder))
            self._leave(folder, states)

    def _arrive(self, folder: bytes, states: dict[bytes, State]) -> None:
        """States of a tree that was away may be old: a file with a second name inside the source was edited by it."""
        for name, state in states.items():
            path = os.path.join(folder, name)
            full = self._full(path)
            self.journal.note(path, state if state.target is not None else State(hash=_hash(full)))

    def _leave(self, folder: bytes, states: dict[bytes, State]) -> None:
        for name in states:
            self.journal.note(os.path.join(folder, name), None)

    def _below(self, folder: bytes) -> Iterator[tuple[bytes, State]]:
        for path, state in self.journal.now().items():
            if path.startswith(folder + b"/"):
                yield path[len(folder) + 1 :], state

    # Choices

    def _new_path(self) -> bytes:
        name = self._random.choice(_NAMES)
        depth = self._random.choice((0, 1, 1, 1, 2, 2, 5))
        return b"/".join([*(self._random.choice(_FOLDERS) for _ in range(depth)), name])

    def _a_file(self) -> bytes | None:
        small = [
            path
            for path, state in sorted(self.journal.now().items())
            if state.target is None and self._size(path) < LARGE_BYTES
        ]
        return self._random.choice(small) if small else None

    def _a_folder(self) -> bytes | None:
        """A top folder, or one below it."""
        parents = {os.path.dirname(path) for path in self.journal.now()} - {b""}
        folders = sorted(parents | {path.partition(b"/")[0] for path in parents})
        return self._random.choice(folders) if folders else None

    def _content(self) -> bytes:
        """New bytes, or now and then some that were there before: a duplicate or a revert."""
        if self._random.random() < 0.25:
            return self._random.choice(self._contents)
        data = self._random.randbytes(self._random.choice((10, 1_000, 30_000, 200_000)))
        self._contents = [*self._contents[-30:], data]
        return data

    def _note_file(self, path: bytes) -> None:
        """The file's bytes are new, under each of its names."""
        full = self._full(path)
        state, found = State(hash=_hash(full)), os.lstat(full)
        self.journal.note(path, state)
        if found.st_nlink > 1:
            for other, known in self.journal.now().items():
                if known.target is None and other != path and os.lstat(self._full(other)).st_ino == found.st_ino:
                    self.journal.note(other, state)

    def _make_parent(self, path: bytes) -> None:
        os.makedirs(os.path.dirname(self._full(path)), exist_ok=True)

    def _is_folder(self, path: bytes) -> bool:
        full = self._full(path)
        return os.path.isdir(full) and not os.path.islink(full)

    def _size(self, path: bytes) -> int:
        return os.lstat(self._full(path)).st_size

    def _full(self, path: bytes) -> bytes:
        return os.path.join(self._root, path)


def _hash(full: bytes) -> bytes:
    with open(full, "rb") as file:
        return blake3(file.read()).digest()
