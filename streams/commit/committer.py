"""The committer: the loop that decides when a dataset gets a version (``headwater run commit``).

reads   the catalog: file_versions, paths, objects, checkpoints, exceptions, commit_requests
writes  the catalog (versions, version_changes, paths.committed_*, datasets), S3 manifests, lakeFS, dataset.versions
effect  numbered versions, each published once, see ``writer.py``
safe    because a version is frozen before it is made, made under the epoch of the only committer, and published by
        one conditional update; all else is private or done again without effect
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random

from headwater.connectors.catalog import sources, versions
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.versions import Version
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.topics import verify_topics
from headwater.connectors.lakefs.client import LakeFS
from headwater.connectors.lakefs.config import check_repository_name
from headwater.connectors.manifests import Manifests
from headwater.connectors.s3.store import ObjectStore
from headwater.observe import logs, metrics
from headwater.rules.errors import Transient
from headwater.schemas.topics import DATASET_VERSIONS
from headwater.streams.commit.announcer import Announcer
from headwater.streams.commit.config import CommitConfig
from headwater.streams.commit.writer import VersionWriter
from headwater.streams.runtime.backoff import full_jitter

log = logs.logger()


class Committer:
    """One dataset's committer. ``run`` returns after ``stop``, and raises Fenced when another was started."""

    def __init__(
        self,
        config: CommitConfig,
        *,
        catalog: Catalog,
        objects: ObjectStore,
        lakefs: LakeFS,
        kafka: Kafka,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self._catalog = catalog
        self._objects = objects
        self._lakefs = lakefs
        self._kafka = kafka
        self._clock = clock
        self._random = Random()
        self._stop = threading.Event()
        self._attempted_at = clock()
        self._settled: int | None = None
        metrics.COMMIT_RETRIES.labels(config.dataset)  # from 0: so that a rate sees the first one too
        self.trouble = ""
        """Why it waits, in a sentence; empty while all goes well. For health checks."""

    def stop(self) -> None:
        """Ask ``run`` to return after the version that it makes; safe from a signal handler or another thread."""
        self._stop.set()

    def run(self) -> None:
        """Make versions until ``stop``. Raises Fenced, Refused, Corrupt and other errors that waiting does not heal."""
        check_repository_name(self.config.lakefs_repository, "commit.repository (by default the dataset's name)")
        writer: VersionWriter | None = None
        failures = 0
        while not self._stop.is_set():
            try:
                writer = writer or self._take_over()
                self._make_what_is_due(writer)
                failures, self.trouble = 0, ""
                self._stop.wait(self.config.poll_seconds)
            except Transient as trouble:
                self.trouble = str(trouble)
                log.warning("commit.waiting", dataset=self.config.dataset, reason=self.trouble)
                metrics.COMMIT_RETRIES.labels(self.config.dataset).inc()
                self._stop.wait(self._pause_seconds(failures))
                failures += 1

    def _take_over(self) -> VersionWriter:
        """Become the committer: from here on an older one, and an intent that it left, are ours."""
        verify_topics(self._kafka, (DATASET_VERSIONS,))
        with self._catalog.transaction() as transaction:
            dataset = versions.take_over(transaction, self.config.dataset, self.config.lakefs_repository)
            head = versions.newest(transaction, self.config.dataset)
        if head is not None:
            self._attempted_at = min(self._clock(), head.created_at.timestamp())
        log.info("commit.took_over", dataset=dataset.dataset, epoch=dataset.committer_epoch, head=dataset.head)
        return VersionWriter(
            catalog=self._catalog,
            manifests=Manifests(self._objects),
            lakefs=self._lakefs,
            announcer=Announcer(self._kafka, dataset.dataset),
            bucket=self._objects.config.bucket,
            dataset=dataset,
        )

    def _make_what_is_due(self, writer: VersionWriter) -> None:
        """One turn: what follows the head, an intent that was left, a new version if one is due."""
        with self._catalog.transaction() as transaction:
            intent = versions.open_intent(transaction, self.config.dataset)
            head = versions.newest(transaction, self.config.dataset)
            is_requested = versions.has_requests(transaction, self.config.dataset)
            silent = sources.silent_seconds(transaction, self.config.dataset)
            dataset = versions.find(transaction, self.config.dataset)
        if dataset is None or dataset.committer_epoch != writer.epoch:  # read last: what was read before is ours
            raise versions.fenced(self.config.dataset, writer.epoch)
        metrics.COMMIT_UNCOMMITTED.labels(self.config.dataset).set(dataset.uncommitted)
        for source, seconds in silent.items():
            metrics.SOURCE_SILENT_SECONDS.labels(source).set(seconds)
        if head is not None:
            self._settle(writer, head)
        if intent is None and (is_requested or self._is_due(dataset.uncommitted)):
            self._attempted_at = self._clock()
            intent = writer.freeze()
        if intent is not None:
            with metrics.COMMIT_SECONDS.labels(self.config.dataset).time():
                self._settle(writer, writer.finish(intent))

    def _is_due(self, uncommitted: int) -> bool:
        waited = self._clock() - self._attempted_at
        return uncommitted >= self.config.changes or waited >= self.config.every_seconds

    def _settle(self, writer: VersionWriter, head: Version) -> None:
        """What follows the publication of the head, once in this process's life."""
        if head.version != self._settled:
            writer.announce(head)
            writer.follow(head)
            metrics.COMMIT_HEAD.labels(self.config.dataset).set(head.version)
            metrics.COMMIT_EXCEPTIONS.labels(self.config.dataset).set(head.exceptions)
            self._settled = head.version

    def _pause_seconds(self, failures: int) -> float:
        return full_jitter(
            failures,
            base_seconds=self.config.retry_seconds,
            most_seconds=self.config.retry_most_seconds,
            random=self._random,
        )
