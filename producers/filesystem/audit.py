"""The slow audit: files that nothing says have changed are read again, so that a change that moved no clock is found.

Size, mtime and ctime tell of every change that goes through the kernel's ordinary ways. They do not tell of a disk that
returns other bytes, of a repair below the filesystem, or of a device that was written while it was mounted elsewhere.
What is found so is no new state that anybody made: it is named as damaged, its last good state stays in the versions,
and a person decides (docs/runbooks/file-damaged.md).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from blake3 import blake3

from headwater.observe import metrics
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.index.files import KnownFile
from headwater.producers.filesystem.notice import Notice
from headwater.producers.filesystem.recorder import DAMAGED, Recorder
from headwater.producers.filesystem.settle import Settling, Writers, probe_writers
from headwater.producers.filesystem.tree import GONE, Signature, Tree, name_of, parent_of, signature_of

_BLOCK_BYTES = 1024 * 1024
_PAGE = 100
_MARK_SECONDS = 10.0
"""How often the place in the cycle goes to disk: a restart audits these seconds again."""

OTHER_BYTES = f"{DAMAGED}: its bytes are not those that were sent, though its size, mtime and ctime did not move"


@dataclass(frozen=True, slots=True)
class Finding:
    """``reason``: damaged, and how; None: as it was sent. ``moved``: it changed in the ordinary way, or is gone."""

    known: KnownFile
    reason: str | None = None
    moved: bool = False


class Audit:
    """Called from the agent's thread; a thread of its own reads one file at a time, at the set pace."""

    def __init__(
        self,
        config: AgentConfig,
        tree: Tree,
        index: Index,
        settling: Settling,
        notice: Notice,
        recorder: Recorder,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._tree = tree
        self._index = index
        self._settling = settling
        self._notice = notice
        self._recorder = recorder
        self._clock = clock
        self._page: deque[KnownFile] = deque()
        self._after: tuple[bytes, bytes] | None = index.audit.after
        self._marked_at = 0.0
        self._stopping = Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._reading: Future[Finding] | None = None
        metrics.AGENT_DAMAGED.labels(
            config.source
        )  # at 0 from the start: a rate does not see what a counter begins with

    def step(self, *, idle: bool) -> bool:
        """Judge what was read and begin with the next file, while there is nothing better to do. True: a file ended."""
        if not self._config.audit_bytes_per_second:
            return False
        if self._reading is not None:
            if not self._reading.done():
                return False
            finding, self._reading = self._reading.result(), None
            self._judge(finding)
            return True
        if idle and self._is_due() and (known := self._next()) is not None and known.path not in self._settling:
            self._reading = self._thread.submit(self._audited, known)
        return False

    def _is_due(self) -> bool:
        """The first cycle begins one cycle after the index: until then every file was just read. A shorter cycle than
        before counts at once."""
        mark, now = self._index.audit, self._clock()
        if mark.cycle_at is None or mark.cycle_at > now + self._config.audit_cycle_seconds:
            with self._index.transaction():
                mark.put(mark.after, now + self._config.audit_cycle_seconds)
            return False
        return mark.cycle_at <= now

    def _next(self) -> KnownFile | None:
        """The next file in order of path; None at the end of a cycle."""
        if not self._page:
            self._page.extend(self._index.files.verified_after(self._after or (b"", b""), _PAGE))
        cycle_at = self._index.audit.cycle_at or self._clock()
        if not self._page:
            self._after = None
            with self._index.transaction():
                self._index.audit.put(None, max(self._clock(), cycle_at + self._config.audit_cycle_seconds))
            return None
        known = self._page.popleft()
        self._after = parent_of(known.path), name_of(known.path)
        if self._clock() - self._marked_at > _MARK_SECONDS:
            self._marked_at = self._clock()
            with self._index.transaction():
                self._index.audit.put(self._after, cycle_at)
        return known

    def _judge(self, finding: Finding) -> None:
        path = finding.known.path
        metrics.AGENT_AUDITED_BYTES.labels(self._config.source).inc(finding.known.signature.size)
        now_known = self._index.files.get(path)
        with self._index.transaction():
            if finding.moved or now_known is None or now_known.signature != finding.known.signature:
                self._notice.look(path)
            elif finding.reason == OTHER_BYTES and not finding.known.strong:
                self._index.requests.mark(path, "audit")  # its clocks promise nothing (recorder.is_silent): a change
                self._notice.look(path)
            elif finding.reason is not None:
                metrics.AGENT_DAMAGED.labels(self._config.source).inc()
                self._recorder.except_path(path, finding.reason)
            else:
                self._recorder.mended(path)

    def _audited(self, known: KnownFile) -> Finding:
        """In the audit's thread. A first mismatch may be the cable's or the memory's: only a second one counts."""
        try:
            descriptor = self._tree.open_file(known.path)
        except GONE:
            return Finding(known, moved=True)
        except OSError:
            return Finding(known, moved=True)  # a look names what hinders it
        try:
            for _ in range(2):
                before = signature_of(os.fstat(descriptor))
                found = self._hash(descriptor)
                after = signature_of(os.fstat(descriptor))
                unmoved = _clocks(before) == _clocks(after) == _clocks(known.signature)
                if found is None or not unmoved or probe_writers(descriptor) is Writers.some:
                    return Finding(known, moved=not self._stopping.is_set())
                if found == known.hash:
                    return Finding(known)
            return Finding(known, OTHER_BYTES)
        except OSError as error:
            return Finding(known, f"{DAMAGED}: it can no longer be read: {error.strerror}")
        finally:
            os.close(descriptor)

    def _hash(self, descriptor: int) -> bytes | None:
        """What the disk has, not what memory remembers of it; None where the agent stops."""
        hasher, offset = blake3(), 0
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        while block := os.pread(descriptor, _BLOCK_BYTES, offset):
            hasher.update(block)
            os.posix_fadvise(descriptor, offset, len(block), os.POSIX_FADV_DONTNEED)
            offset += len(block)
            if self._stopping.wait(len(block) / self._config.audit_bytes_per_second):
                return None
        return hasher.digest()

    def close(self) -> None:
        self._stopping.set()
        self._thread.shutdown(wait=True, cancel_futures=True)


def _clocks(signature: Signature) -> tuple[int, int, int, int]:
    """Device numbers may change when a host starts again."""
    return signature.size, signature.mtime_ns, signature.ctime_ns, signature.inode
