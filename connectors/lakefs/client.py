"""One client of lakeFS with few verbs.

What lakeFS does not do, its callers must: a link is accepted without a look at the object (a missing object, a wrong
size and a wrong checksum all pass), so only verified objects are linked and the commit is compared with what was
meant. There is no verb for ``import``: it deletes every committed path that starts with the destination string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

import urllib3
from lakefs.config import ClientConfig
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.exceptions import ApiException
from lakefs_sdk.models.branch_creation import BranchCreation
from lakefs_sdk.models.commit_creation import CommitCreation
from lakefs_sdk.models.path_list import PathList
from lakefs_sdk.models.repository_creation import RepositoryCreation
from lakefs_sdk.models.staging_location import StagingLocation
from lakefs_sdk.models.staging_metadata import StagingMetadata
from lakefs_sdk.models.tag_creation import TagCreation

from headwater.connectors.lakefs.config import LakeFSConfig
from headwater.connectors.lakefs.errors import ALREADY_EXISTS, judged, mapped
from headwater.rules.errors import Corrupt, NotFound, Refused, Unavailable, Unclear

T = TypeVar("T")

_PAGE = 1000
"""Most entries that lakeFS returns, and most paths that it deletes, in one request."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a branch or commit: ``checksum`` and ``metadata`` are what was linked, never what S3 says."""

    path: str
    physical_address: str
    checksum: str
    size: int
    mtime: int
    """Seconds since 1970 UTC."""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that differs between two commits; the right side's values, None where the right side lacks it."""

    path: str
    kind: str
    """added, changed or removed"""
    checksum: str | None
    size: int | None
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    parents: tuple[str, ...]
    message: str
    metadata: Mapping[str, str]


class LakeFS:
    """Safe for threads. Every method raises Unavailable, Refused or NotFound; the others that it may raise it names."""

    def __init__(self, config: LakeFSConfig) -> None:
        self.config = config
        client = ClientConfig(host=config.endpoint, username=config.access_key_id, password=config.secret_access_key)
        client.connection_pool_maxsize = config.connections
        # urllib3 repeats only what is safe to repeat: a request that was not sent, or one of an idempotent method.
        client.retries = urllib3.Retry(total=2, backoff_factor=0.1)  # type: ignore[assignment]  # declared as None
        self._api = LakeFSClient(client, header_name="X-Lakefs-Client", header_value="headwater")  # type: ignore[no-untyped-call]

    def _call(self, asked: str, call: Callable[..., T], *arguments: object, **named: object) -> T:
        try:
            return call(*arguments, _request_timeout=self.config.request_seconds, **named)
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            raise mapped(error, asked, self.config.endpoint) from error

    def ensure_repository(self, repository: str, storage_namespace: str) -> None:
        """Create the repository unless it is there. ``storage_namespace``: ``s3://bucket/prefix``, used only once."""
        asked = f"Creating the lakeFS repository {repository} in {storage_namespace}."
        try:
            self._call(asked, self._api.repositories_api.get_repository, repository)
        except NotFound:
            creation = RepositoryCreation(name=repository, storage_namespace=storage_namespace, storage_id=None)
            with _already_there_is_fine():
                self._call(asked, self._api.repositories_api.create_repository, creation)

    def first_commit(self, repository: str, branch: str = "main") -> str:
        """Id of the commit that the repository was created with."""
        asked = f"Reading the log of {branch} in {repository}."
        pages = self._pages(asked, self._api.refs_api.log_commits, repository, branch)
        return [str(commit.id) for commit in pages][-1]

    def create_branch(self, repository: str, branch: str, source: str) -> None:
        """A branch at the commit ``source``. Branch names hold letters, digits, ``_`` and ``-``."""
        creation = BranchCreation(name=branch, source=source, hidden=None)
        asked = f"Creating the branch {branch} in {repository}."
        self._call(asked, self._api.branches_api.create_branch, repository, creation)

    def delete_branch(self, repository: str, branch: str) -> None:
        """Delete a branch; one that is not there is fine."""
        try:
            self._call(f"Deleting the branch {branch}.", self._api.branches_api.delete_branch, repository, branch)
        except NotFound:
            return

    def branches(self, repository: str, prefix: str) -> list[str]:
        asked = f"Listing the branches of {repository}."
        return [str(b.id) for b in self._pages(asked, self._api.branches_api.list_branches, repository, prefix=prefix)]

    def head_of(self, repository: str, branch: str) -> Commit:
        """The commit that a branch, tag or commit id points at."""
        asked = f"Reading {branch} in {repository}."
        found = self._call(asked, self._api.refs_api.log_commits, repository, branch, amount=1, limit=True)
        return _commit(found.results[0])

    def move_branch(self, repository: str, branch: str, commit: str) -> None:
        """Point the branch at the commit, whatever it pointed at; what was staged on it goes."""
        asked = f"Moving the branch {branch} of {repository} to {commit}."
        self._call(asked, self._api.experimental_api.hard_reset_branch, repository, branch, ref=commit)

    def tag(self, repository: str, tag: str, commit: str) -> None:
        """Name the commit. A tag that is there already is left; Refused if it names another commit."""
        creation = TagCreation(id=tag, ref=commit)
        with _already_there_is_fine():
            self._call(f"Tagging {commit} as {tag}.", self._api.tags_api.create_tag, repository, creation)
        there = self.head_of(repository, tag).id
        if there != commit:
            raise Refused(
                f"the tag {tag} of {repository} names {there}, not {commit}",
                kept="The version is published; only its tag is wrong.",
                advice=f"Delete the tag with lakectl tag delete lakefs://{repository}/{tag}; it is then made anew.",
            )

    def link(self, repository: str, branch: str, entries: Iterable[Entry], *, at_once: int) -> int:
        """Stage entries on the branch, ``at_once`` requests in flight; returns how many.

        Raises Corrupt if lakeFS answers that it recorded anything else than it was told.
        """
        linked = 0
        with ThreadPoolExecutor(at_once, thread_name_prefix="link") as threads:
            for batch in _batches(entries, _PAGE):
                linked += sum(threads.map(lambda entry: self._link(repository, branch, entry), batch))
        return linked

    def _link(self, repository: str, branch: str, entry: Entry) -> int:
        staging = StagingMetadata(
            staging=StagingLocation(
                physical_address=entry.physical_address, presigned_url=None, presigned_url_expiry=None
            ),
            checksum=entry.checksum,
            size_bytes=entry.size,
            mtime=entry.mtime,
            user_metadata=dict(entry.metadata),
            content_type=None,
        )
        asked = f"Linking {entry.path!r} on {branch}."
        answer = self._call(asked, self._api.staging_api.link_physical_address, repository, branch, entry.path, staging)
        recorded = _entry(answer)
        if replace(recorded, mtime=entry.mtime) != entry:  # lakeFS may ignore the time; the metadata has it whole
            raise Corrupt(f"lakeFS recorded {recorded}, not {entry}", asked=asked, kept="The branch is private.")
        return 1

    def unlink(self, repository: str, branch: str, paths: Iterable[str]) -> None:
        """Stage the removal of paths; those that are not there are fine.

        Raises what lakeFS said of the first one that it kept: Unavailable where only its database was away.
        """
        for batch in _batches(paths, _PAGE):
            asked = f"Removing {len(batch)} paths from {branch}."
            answer = self._call(asked, self._api.objects_api.delete_objects, repository, branch, PathList(paths=batch))
            if answer.errors:
                first = answer.errors[0]
                said = f"it kept {len(answer.errors)} of them, first {first.path}: {first.message}"
                raise judged(first.status_code, said, asked, self.config.endpoint)

    def commit(self, repository: str, branch: str, message: str, metadata: Mapping[str, str]) -> Commit:
        """Commit what is staged, even if it is nothing. Raises Unclear when it may or may not have happened."""
        # A null map of metadata once crashed the server: it always gets one.
        creation = CommitCreation(message=message, metadata=dict(metadata), allow_empty=True, date=None)
        asked = f"Committing {branch} of {repository}."
        try:
            return _commit(self._call(asked, self._api.commits_api.commit, repository, branch, creation))
        except Unavailable as error:
            raise Unclear(error.happened, asked=asked, advice="Look at the head of the branch.") from error

    def diff(self, repository: str, left: str, right: str) -> Iterator[Difference]:
        """What changes from commit ``left`` to commit ``right``, in the order of paths.

        Of a branch it sees the commits only, not what is staged.
        """
        asked = f"Comparing {left} with {right} in {repository}."
        pages = self._pages(
            asked, self._api.refs_api.diff_refs, repository, left, right, type="two_dot", include_right_stats=True
        )
        for found in pages:
            if found.right is None:
                yield Difference(found.path, found.type, None, None, {})
            else:
                right_side = found.right
                yield Difference(
                    found.path, found.type, right_side.checksum, found.size_bytes, right_side.metadata or {}
                )

    def list_objects(self, repository: str, ref: str, *, prefix: str = "") -> Iterator[Entry]:
        """Every path of a branch, tag or commit, in the order of their UTF-8 bytes."""
        asked = f"Listing {ref} in {repository}."
        listing = self._pages(
            asked, self._api.objects_api.list_objects, repository, ref, prefix=prefix, user_metadata=True
        )
        return map(_entry, listing)

    def _pages(self, asked: str, call: Callable[..., Any], *arguments: object, **named: object) -> Iterator[Any]:
        after = ""
        while True:
            page = self._call(asked, call, *arguments, after=after, amount=_PAGE, **named)
            yield from page.results
            if not page.pagination.has_more:
                return
            after = page.pagination.next_offset


@contextmanager
def _already_there_is_fine() -> Iterator[None]:
    """Passes over the Refused that means: somebody made it a moment earlier."""
    try:
        yield
    except Refused as error:
        if error.facts.get("status") != ALREADY_EXISTS:
            raise


def _entry(answer: Any) -> Entry:
    return Entry(
        answer.path, answer.physical_address, answer.checksum, answer.size_bytes, answer.mtime, answer.metadata or {}
    )


def _commit(answer: Any) -> Commit:
    return Commit(answer.id, tuple(answer.parents), answer.message, answer.metadata or {})


def _batches(items: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch
