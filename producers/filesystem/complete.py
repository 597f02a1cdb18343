"""Is a file complete? What its source says of it by names, markers or a program, besides what the filesystem shows.

A file that is quiet and free of writers is whole as far as a filesystem can tell. A tool that copies in several
strokes, or that resumes next week, leaves files that look so and are not. Each source may have one rule or more; a
file that one of them calls incomplete is named as busy, is not read, and is looked at again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from threading import Lock

from pathspec import GitIgnoreSpec

from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.tree import GONE, Tree, join, name_of, parent_of
from headwater.rules.identity import display
from headwater.schemas.records import FileType

IN_PROGRESS = "busy: its name says that it is not complete; it is read once it is renamed"

_NAME = b"{name}"
_SAID_BYTES = 120


class Completeness:
    """``trouble`` runs in any thread, and may wait for a program; the rest looks at names only."""

    def __init__(self, config: AgentConfig, tree: Tree) -> None:
        self._config = config
        self._tree = tree
        self._in_progress = GitIgnoreSpec.from_lines(config.in_progress)
        self._marker = os.fsencode(config.complete_marker)
        self._probe = [os.fsencode(word) for word in config.complete_probe]
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    @property
    def asks(self) -> bool:
        """Must ``trouble`` be asked before a file is read?"""
        return bool(self._marker or self._probe)

    def is_in_progress(self, path: bytes) -> bool:
        return bool(len(self._in_progress)) and bool(self._in_progress.match_file(os.fsdecode(path)))

    def marked_by(self, path: bytes) -> bytes | None:
        """What a marker at this path says to be complete: a file, or (``{name}`` is not in it) its directory."""
        before, has_name, after = self._marker.partition(_NAME)
        name = name_of(path)
        if not has_name:
            return parent_of(path) if self._marker and name == self._marker else None
        if len(name) <= len(before + after) or not (name.startswith(before) and name.endswith(after)):
            return None
        return join(parent_of(path), name[len(before) : len(name) - len(after)])

    def trouble(self, path: bytes) -> str | None:
        """Why the file is not complete yet; None where it is, or is no file any more."""
        try:
            if self._tree.stat(path).file_type is not FileType.regular or self.marked_by(path) is not None:
                return None
            if self._marker:
                marker = join(parent_of(path), self._marker.replace(_NAME, name_of(path)))
                if not self._is_there(marker):
                    return f"busy: its marker {display(name_of(marker))} is not there"
        except OSError:
            return None  # reading it will say what is wrong
        return self._asked(path) if self._probe else None

    def _is_there(self, path: bytes) -> bool:
        try:
            self._tree.stat(path)
        except GONE:
            return False
        return True

    def _asked(self, path: bytes) -> str | None:
        """Run the probe: no shell, the path as its last argument, in a session of its own, so that all of it ends."""
        program = display(self._probe[0])
        with tempfile.TemporaryFile() as said:
            try:
                with self._lock:
                    if self._closed:
                        return "busy: the agent stops"
                    process = subprocess.Popen(
                        [*self._probe, self._tree.absolute(path)],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=said,
                        start_new_session=True,
                    )
                    self._running.add(process)
            except OSError as error:
                return f"busy: {program} cannot be run: {error.strerror}"
            try:
                code = process.wait(self._config.complete_probe_seconds)
            except subprocess.TimeoutExpired:
                return f"busy: {program} did not answer within {self._config.complete_probe_seconds:g} s"
            finally:
                _end(process)
                with self._lock:
                    self._running.discard(process)
            said.seek(0)
            line = display(said.read(_SAID_BYTES).partition(b"\n")[0])
        return None if code == 0 else f"busy: {program} ended with {code}" + (f": {line}" if line else "")

    def close(self) -> None:
        """End the programs that run."""
        with self._lock:
            self._closed = True
            for process in self._running:
                _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The program and what it started. One that ended leaves nothing to end but its children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
