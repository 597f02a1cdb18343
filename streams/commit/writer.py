"""The protocol that makes one version of a dataset, in five steps.

A version exists from the moment that step 5 commits, and not before; what the earlier steps leave is private to it
and is done again, from the same frozen delta, by whoever comes next.

1. ``freeze``: one catalog transaction writes the intent ``versions(n)`` and its frozen delta ``version_changes``.
   *A crash after it* leaves an intent: the next committer goes on with step 2, whatever changed meanwhile.
2. ``write_manifest``: the delta as Parquet in S3 under its own hash, now and then the whole version too.
   *A crash after it* leaves an object that the next attempt writes again, byte for byte.
3. ``link_branch``: a lakeFS branch at the parent's commit, named by version and epoch; changed paths linked, gone
   paths unlinked.
   *A crash after it* leaves a private branch that nobody reads; the next attempt begins a branch of its own.
4. ``commit_branch``: a lakeFS commit on that branch, compared with the manifest path by path.
   *A crash after it* leaves a commit that no version names; it goes with its branch.
5. ``publish``: one catalog transaction makes it the head, WHERE the committer's epoch is still the newest.
   *A crash after it* leaves a published version: the next committer does what follows.

What follows publication is done again by each committer at its start, and changes nothing when it was done:
``announce`` writes the version's record to dataset.versions, once; ``follow`` moves main, tags ``v<n>``, and deletes
the branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from headwater.connectors.catalog import versions
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.freeze import freeze
from headwater.connectors.catalog.versions import DatasetRow, Version
from headwater.connectors.lakefs.client import Entry, LakeFS
from headwater.connectors.lakefs.comparison import delta_problems, entry_of
from headwater.connectors.manifests import Manifests
from headwater.observe import logs, metrics
from headwater.rules.cut import needs_base
from headwater.rules.errors import Corrupt, Unclear
from headwater.schemas.manifest import ManifestRow, encode
from headwater.schemas.records import DatasetVersion
from headwater.streams.commit.announcer import Announcer

log = logs.logger()

LINKS_AT_ONCE = 16
"""One thread links 93 paths a second, sixteen 570 (two cores, server on the same machine); more gain nothing."""

_MAIN = "main"
_PROBLEMS_SHOWN = 5


class VersionWriter:
    """Writes versions of one dataset under one committer epoch. Used from one thread."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        manifests: Manifests,
        lakefs: LakeFS,
        announcer: Announcer,
        bucket: str,
        dataset: DatasetRow,
    ) -> None:
        self._catalog = catalog
        self._manifests = manifests
        self._lakefs = lakefs
        self._announcer = announcer
        self._bucket = bucket
        self._dataset = dataset.dataset
        self._repository = dataset.repository
        self.epoch = dataset.committer_epoch

    def finish(self, intent: Version) -> Version:
        """Steps 2 to 5, for a new intent or one that was left behind: the published version."""
        intent = self.write_manifest(intent)
        parent = self._parent_commit()
        branch = self.link_branch(intent, parent)
        commit = self.commit_branch(intent, parent, branch)
        self.publish(intent, commit)
        return replace(intent, state="published", commit_id=commit)

    def freeze(self) -> Version | None:
        """Step 1. None: nothing changed since the head."""
        with self._catalog.transaction() as transaction:
            return freeze(transaction, self._dataset, self.epoch)

    def write_manifest(self, intent: Version) -> Version:
        """Step 2."""
        about = {"dataset": self._dataset, "version": str(intent.version)}
        with self._catalog.transaction() as transaction:
            earlier = versions.manifests_of(transaction, self._dataset, intent.version - 1)
            wants_base = needs_base(*versions.rows_since_base(transaction, self._dataset))
            delta = encode(versions.changes(transaction, self._dataset, intent.version), about | {"kind": "delta"})
        manifest_hash = self._manifests.store(delta)
        base_hash = None
        if intent.parent is None:
            base_hash = manifest_hash  # what is added to nothing is everything
        elif wants_base:
            files = self._manifests.files([*earlier, manifest_hash])
            base_hash = self._manifests.store(encode(files, about | {"kind": "base"}))
        intent = replace(intent, manifest_hash=manifest_hash, base_hash=base_hash)
        with self._catalog.transaction() as transaction:
            versions.record_manifest(transaction, intent)
        return intent

    def link_branch(self, intent: Version, parent: str) -> str:
        """Step 3. Begins anew where an earlier attempt under this epoch got stuck."""
        branch = f"ingest-v{intent.version}-e{self.epoch}"
        self._lakefs.delete_branch(self._repository, branch)
        self._lakefs.create_branch(self._repository, branch, parent)
        self._lakefs.link(self._repository, branch, self._entries(intent), at_once=LINKS_AT_ONCE)
        gone = (row.place for row in self._delta(intent) if entry_of(row, self._bucket) is None)
        self._lakefs.unlink(self._repository, branch, gone)
        return branch

    def commit_branch(self, intent: Version, parent: str, branch: str) -> str:
        """Step 4: the id of the commit, proved to change from the parent what the manifest says and nothing else.

        Raises Corrupt where it does not: nothing is published then.
        """
        message = intent.message or f"Version {intent.version} of {self._dataset}"
        metadata = _metadata(intent)
        try:
            commit = self._lakefs.commit(self._repository, branch, message, metadata).id
        except Unclear:
            head = self._lakefs.head_of(self._repository, branch)
            if head.id == parent or dict(head.metadata) != metadata:
                raise
            commit = head.id
        differences = self._lakefs.diff(self._repository, parent, commit)
        problems = delta_problems(self._delta(intent), differences, self._bucket)
        if shown := list(islice(problems, _PROBLEMS_SHOWN)):
            raise Corrupt(
                f"the lakeFS commit {commit} is not what the manifest says: {'; '.join(shown)}",
                asked=f"Committing version {intent.version} of {self._dataset}.",
                kept="Nothing was published; the branch is private and the intent stays.",
                advice="Start the committer again: it begins a new branch. If it stays, look who else writes there.",
            )
        return commit

    def publish(self, intent: Version, commit: str) -> None:
        """Step 5: the commit point."""
        with self._catalog.transaction() as transaction:
            versions.publish(transaction, intent, commit)
            carried = versions.changed_bytes(transaction, intent)
        metrics.COMMIT_CHANGES.labels(self._dataset).inc(intent.added + intent.changed + intent.removed)
        metrics.COMMIT_BYTES.labels(self._dataset).inc(carried)
        log.info(
            "version.published",
            dataset=self._dataset,
            version=intent.version,
            commit=commit,
            added=intent.added,
            changed=intent.changed,
            removed=intent.removed,
            exceptions=intent.exceptions,
        )

    def announce(self, version: Version) -> None:
        """The version's record on dataset.versions, once."""
        if version.announced_at is None:
            self._announcer.announce(_record(version))
            with self._catalog.transaction() as transaction:
                versions.mark_announced(transaction, self._dataset, version.version)

    def follow(self, version: Version) -> None:
        """main and the tag point at the version; the branches that led to it are gone."""
        assert version.commit_id is not None
        if self._lakefs.head_of(self._repository, _MAIN).id != version.commit_id:
            self._lakefs.move_branch(self._repository, _MAIN, version.commit_id)
        self._lakefs.tag(self._repository, f"v{version.version}", version.commit_id)
        for branch in self._lakefs.branches(self._repository, f"ingest-v{version.version}-"):
            self._lakefs.delete_branch(self._repository, branch)

    def _parent_commit(self) -> str:
        with self._catalog.transaction() as transaction:
            head = versions.find(transaction, self._dataset)
        assert head is not None
        if head.head_commit is not None:
            return head.head_commit
        namespace = f"s3://{self._bucket}/lakefs/{self._repository}"
        self._lakefs.ensure_repository(self._repository, namespace)
        return self._lakefs.first_commit(self._repository, _MAIN)

    def _delta(self, intent: Version) -> Iterator[ManifestRow]:
        assert intent.manifest_hash is not None
        return self._manifests.read(intent.manifest_hash)

    def _entries(self, intent: Version) -> Iterator[Entry]:
        return (entry for row in self._delta(intent) if (entry := entry_of(row, self._bucket)) is not None)


def _metadata(version: Version) -> dict[str, str]:
    """What the commit says of itself, so that lakeFS alone leads to the manifest and the cut."""
    assert version.manifest_hash is not None
    known: dict[str, str] = {
        "dataset": version.dataset,
        "version": str(version.version),
        "epoch": str(version.epoch),
        "manifest": version.manifest_hash.hex(),
        "added": str(version.added),
        "changed": str(version.changed),
        "removed": str(version.removed),
        "files": str(version.files),
        "bytes": str(version.content_bytes),
        "exceptions": str(version.exceptions),
    }
    for source, cut in version.cut.items():
        known[f"cut.{source}"] = f"{cut['epoch']}.{cut['complete_to'] if cut['complete_to'] is not None else '-'}"
    return known


def _record(version: Version) -> DatasetVersion:
    assert version.commit_id is not None
    assert version.manifest_hash is not None
    return DatasetVersion(
        dataset=version.dataset,
        version=version.version,
        parent=version.parent,
        epoch=version.epoch,
        commit_id=version.commit_id,
        manifest_hash=version.manifest_hash,
        added=version.added,
        changed=version.changed,
        removed=version.removed,
        files=version.files,
        content_bytes=version.content_bytes,
        exceptions=version.exceptions,
    )
