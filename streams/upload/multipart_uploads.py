"""The multipart uploads behind the claims of the lane of parts: begun, found again, looked up, completed, aborted.

S3 is asked outside any transaction; what it said is written as the holder of the claim, so that a member that lost its
partition changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headwater.connectors.catalog import parts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.objects import Claim
from headwater.connectors.s3.store import ObjectStore
from headwater.observe import metrics
from headwater.rules.errors import HeadwaterError, NotFound, Unclear
from headwater.rules.identity import object_key


class MultipartUploads:
    """Steps 2, 3, 6 and 7 of the lane of parts. Used by its one step thread."""

    def __init__(self, catalog: Catalog, store: ObjectStore) -> None:
        self._catalog = catalog
        self._store = store
        self._known: set[Claim] = set()

    def doubt(self) -> None:
        """Something failed: what was under way may or may not have arrived, so ask S3 about every claim again."""
        self._known.clear()

    def open(self, claims: Sequence[Claim]) -> list[Claim]:
        """A multipart upload for each claim that has none: an unfinished one of its key, else a new one.

        Returns the claims with their upload ids. Raises Fenced.
        """
        return [one if one.upload_id is not None else self._opened(one) for one in claims]

    def _opened(self, claim: Claim) -> Claim:
        unfinished = self._store.find_multiparts(claim.key) if claim.resumed else []
        return self._saved(claim, unfinished[0] if unfinished else self._store.create_multipart(claim.key))

    def _saved(self, claim: Claim, upload_id: str) -> Claim:
        with self._catalog.transaction() as transaction:
            parts.hold_claims(transaction, [claim])
            parts.save_upload(transaction, claim, upload_id)
        return replace(claim, upload_id=upload_id)

    def reconcile(self, claims: Sequence[Claim]) -> tuple[list[Claim], list[Claim]]:
        """Of claims that were taken over, make the catalog say what S3 has.

        Returns the claims to go on with, and those whose object is complete already. Raises Fenced.
        """
        unfinished: list[Claim] = []
        completed: list[Claim] = []
        for one in claims:
            if not one.resumed or one in self._known:
                unfinished.append(one)
            elif (looked_up := self._looked_up(one)) is not None:
                unfinished.append(looked_up)
            else:
                completed.append(one)
        self._known = {replace(one, resumed=True) for one in unfinished} | self._known
        return unfinished, completed

    def _looked_up(self, claim: Claim) -> Claim | None:
        """The claim, with the parts that S3 has of it marked; None where the upload was completed."""
        try:
            listed = self._store.list_parts(claim.key, claim.upload_id or "")
        except NotFound:
            if self._is_there(claim):
                return None
            claim, listed = self._saved(claim, self._store.create_multipart(claim.key)), {}
        with self._catalog.transaction() as transaction:
            parts.hold_claims(transaction, [claim])
            known = parts.parts_of(transaction, [(claim.hash, claim.generation)])[claim.hash, claim.generation]
            etags = {
                part.index: listed[part.index + 1].etag
                for part in known
                if part.index + 1 in listed and listed[part.index + 1].size == part.length
            }
            parts.forget_sent(transaction, claim)
            parts.mark_sent(transaction, claim, etags)
        metrics.UPLOAD_OBJECTS.labels("parts", "found").inc(len(etags))
        return claim

    def abandon(self, hashes: Iterable[bytes]) -> None:
        """Abort the uploads of contents that are gone. No epoch is needed: such a generation never comes back."""
        with self._catalog.transaction() as transaction:
            abandoned = parts.abandoned_uploads(transaction, hashes)
        if not abandoned:
            return
        for content, generation, upload_id in abandoned:
            self._store.abort_multipart(object_key(content, generation), upload_id)
        with self._catalog.transaction() as transaction:
            parts.forget_uploads(transaction, abandoned)

    def complete(self, claims: Sequence[Claim]) -> list[Claim]:
        """Complete each upload of which every part is there; returns the claims whose object is there now."""
        with self._catalog.transaction() as transaction:
            ready = parts.finished(transaction, claims)
            known = parts.parts_of(transaction, [(one.hash, one.generation) for one in ready])
        for one in ready:
            etags = {part.index + 1: part.etag or "" for part in known[one.hash, one.generation]}
            try:
                self._store.complete_multipart(one.key, one.upload_id or "", etags)
            except HeadwaterError as error:
                if self._is_there(one):
                    continue
                if isinstance(error, NotFound):
                    raise ended(one, f"Complete {one.key}.") from error
                raise
        self._known -= {replace(one, resumed=True) for one in ready}
        return ready

    def _is_there(self, claim: Claim) -> bool:
        head = self._store.head(claim.key)
        return head is not None and head.size == claim.size


def ended(claim: Claim, asked: str) -> Unclear:
    """The error of an upload that was completed or aborted by somebody else."""
    return Unclear(
        f"multipart upload {claim.upload_id} ended behind our back.",
        asked=asked,
        kept="What is finished is looked up and kept.",
        advice="If it repeats: does a lifecycle rule of the bucket abort uploads too early?",
    )
