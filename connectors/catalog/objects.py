"""Stored content and who may write about it: claims, their owners' epochs, and the way from uploading to verified.

A claim is an objects row in state uploading. It belongs to an input partition; the member that owns that partition
writes under the epoch that it took when it was assigned. Every write about a claim happens ``WHERE`` its topic,
partition and epoch still stand in the row, and a row that was not found is Fenced: a newer owner has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.connectors.catalog.client import Transaction
from headwater.connectors.catalog.counters import Tally
from headwater.rules.errors import Fenced
from headwater.rules.identity import object_key


@dataclass(frozen=True, slots=True)
class Owner:
    """The right to write about the claims of one input partition."""

    topic: str
    partition: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Content that a batch wants to send. ``parts`` 0: whole."""

    hash: bytes
    size: int
    parts: int
    source: str
    owner: Owner


@dataclass(frozen=True, slots=True)
class Claim:
    """Content that this owner sends. ``resumed``: an earlier owner or try may have sent it, so look first.
    ``deferred``: it was put off (deferred.py)."""

    hash: bytes
    generation: int
    size: int
    parts: int
    source: str
    owner: Owner
    upload_id: str | None
    resumed: bool
    deferred: bool = False

    @property
    def key(self) -> str:
        return object_key(self.hash, self.generation)


CLAIM_COLUMNS = (
    "o.hash, o.generation, o.size, o.parts, o.source, o.claim_topic, o.claim_partition, o.claim_epoch, o.upload_id, "
    "o.detail <> ''"
)
"""Of an objects row ``o``: what ``claim_of`` takes."""

DEFERRED = "it was put off until its source's root was there again"
"""Detail of a stored object whose announcement no record brings again."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One generation of content and how far it is."""

    hash: bytes
    generation: int
    state: str
    size: int
    source: str
    parts: int
    detail: str

    @property
    def key(self) -> str:
        return object_key(self.hash, self.generation)


def own_partitions(transaction: Transaction, topic: str, partitions: Iterable[int]) -> dict[int, Owner]:
    """Take a new epoch for each partition: from now on its earlier owners are fenced."""
    rows = transaction.execute(
        """
        INSERT INTO partition_epochs AS e (topic, partition, epoch)
        SELECT %s, partition, 1 FROM unnest(%s::int[]) AS partition ORDER BY partition
        ON CONFLICT (topic, partition) DO UPDATE SET epoch = e.epoch + 1
        RETURNING partition, epoch
        """,
        [topic, sorted(set(partitions))],
    )
    return {partition: Owner(topic, partition, epoch) for partition, epoch in rows}


def hold_partitions(transaction: Transaction, owners: Iterable[Owner]) -> None:
    """Check, and make true until this transaction ends, that no newer owner took these partitions. Raises Fenced."""
    held = sorted(set(owners), key=lambda owner: (owner.topic, owner.partition))
    rows = transaction.execute(
        """
        SELECT topic, partition, epoch
        FROM unnest(%s::text[], %s::int[], %s::bigint[]) AS given (topic, partition, epoch)
        JOIN partition_epochs e USING (topic, partition, epoch)
        ORDER BY topic, partition FOR SHARE OF e
        """,
        owner_columns(held),
    )
    lost = set(held) - {Owner(*row) for row in rows}
    if lost:
        raise fenced(lost)


def take_over(transaction: Transaction, owners: Iterable[Owner], hashes: Iterable[bytes]) -> list[Claim]:
    """The open claims of these partitions on these contents, now under the owners' epochs.

    Call ``hold_partitions`` first in the same transaction.
    """
    rows = transaction.execute(
        f"""
        UPDATE objects o SET claim_epoch = given.epoch, changed_at = now()
        FROM unnest(%s::text[], %s::int[], %s::bigint[]) AS given (topic, partition, epoch)
        WHERE o.hash = ANY(%s) AND o.state = 'uploading'
            AND o.claim_topic = given.topic AND o.claim_partition = given.partition
        RETURNING {CLAIM_COLUMNS}
        """.encode(),
        [*owner_columns(owners), sorted(set(hashes))],
    )
    return [claim_of(row, resumed=True) for row in rows]


def claim(transaction: Transaction, wanted: Sequence[Wanted]) -> tuple[list[Claim], Tally]:
    """Claim the contents of which no generation is uploading, stored or verified, as their next generation.

    Of several claimants of one content at the same time one gets it, the others find it taken.
    """
    if not wanted:
        return [], Tally()
    first = {one.hash: one for one in reversed(wanted)}
    given = [first[content] for content in sorted(first)]
    rows = transaction.execute(
        f"""
        INSERT INTO objects AS o (hash, generation, state, size, source, parts,
                                  claim_topic, claim_partition, claim_epoch)
        SELECT hash, (SELECT coalesce(max(generation), 0) + 1 FROM objects WHERE hash = given.hash), 'uploading',
               size, source, parts, topic, partition, epoch
        FROM unnest(%s::bytea[], %s::bigint[], %s::text[], %s::int[], %s::text[], %s::int[], %s::bigint[])
            AS given (hash, size, source, parts, topic, partition, epoch)
        ORDER BY hash
        ON CONFLICT DO NOTHING
        RETURNING {CLAIM_COLUMNS}
        """.encode(),
        [
            [one.hash for one in given],
            [one.size for one in given],
            [one.source for one in given],
            [one.parts for one in given],
            *owner_columns(one.owner for one in given),
        ],
    )
    claims = [claim_of(row, resumed=False) for row in rows]
    tally = Tally()
    for one in claims:
        tally[one.source, "objects_claimed"] += 1
        tally[one.source, "bytes_claimed"] += one.size
    return claims, tally


def mark_stored(transaction: Transaction, claims: Sequence[Claim]) -> Tally:
    """Uploading to stored, as the holder of the claims. Raises Fenced when one of them is no longer ours."""
    _leave_uploading(transaction, claims, "stored", [DEFERRED if one.deferred else "" for one in claims])
    tally = Tally()
    for one in claims:
        tally[one.source, "objects_stored"] += 1
        tally[one.source, "bytes_stored"] += one.size
    return tally


def mark_gone(transaction: Transaction, claims: Sequence[Claim], details: Sequence[str]) -> Tally:
    """Uploading to gone, as the holder: the bytes were not what the event said. Raises Fenced like ``mark_stored``."""
    _leave_uploading(transaction, claims, "gone", details)
    tally = Tally()
    for one in claims:
        tally[one.source, "objects_claimed"] -= 1
        tally[one.source, "bytes_claimed"] -= one.size
    return tally


def _leave_uploading(transaction: Transaction, claims: Sequence[Claim], state: str, details: Sequence[str]) -> None:
    if not claims:
        return
    rows = transaction.execute(
        """
        UPDATE objects o SET state = %s, detail = given.detail, changed_at = now()
        FROM unnest(%s::bytea[], %s::int[], %s::text[], %s::text[], %s::int[], %s::bigint[])
            AS given (hash, generation, detail, topic, partition, epoch)
        WHERE o.hash = given.hash AND o.generation = given.generation AND o.state = 'uploading'
            AND (o.claim_topic, o.claim_partition, o.claim_epoch) = (given.topic, given.partition, given.epoch)
        RETURNING o.hash
        """,
        [
            state,
            [one.hash for one in claims],
            [one.generation for one in claims],
            list(details),
            *owner_columns(one.owner for one in claims),
        ],
    )
    moved = {row[0] for row in rows}
    lost = {one.owner for one in claims if one.hash not in moved}
    if lost:
        raise fenced(lost)


def current(transaction: Transaction, hashes: Iterable[bytes]) -> dict[bytes, StoredObject]:
    """The wanted generation of each content: the one that is uploading, stored or verified, if there is one."""
    rows = transaction.execute(
        """
        SELECT hash, generation, state, size, source, parts, detail FROM objects
        WHERE hash = ANY(%s) AND state IN ('uploading', 'stored', 'verified')
        """,
        [sorted(set(hashes))],
    )
    return {row[0]: StoredObject(*row) for row in rows}


def generations(transaction: Transaction, named: Iterable[tuple[bytes, int]]) -> dict[tuple[bytes, int], StoredObject]:
    """The named (hash, generation) rows that exist."""
    pairs = sorted(set(named))
    rows = transaction.execute(
        """
        SELECT o.hash, o.generation, o.state, o.size, o.source, o.parts, o.detail
        FROM objects o JOIN unnest(%s::bytea[], %s::int[]) AS given (hash, generation) USING (hash, generation)
        ORDER BY o.hash, o.generation
        """,
        [[pair[0] for pair in pairs], [pair[1] for pair in pairs]],
    )
    return {(row[0], row[1]): StoredObject(*row) for row in rows}


def judge(transaction: Transaction, good: Iterable[StoredObject], bad: Mapping[StoredObject, str]) -> Tally:
    """Stored to verified, or to condemned with the reason; what another verifier judged first stays as it judged."""
    verdicts = sorted(
        [(one.hash, one.generation, "verified", "") for one in good]
        + [(one.hash, one.generation, "condemned", reason) for one, reason in bad.items()]
    )
    if not verdicts:
        return Tally()
    rows = transaction.execute(
        """
        UPDATE objects o SET state = given.state, detail = given.detail, changed_at = now()
        FROM unnest(%s::bytea[], %s::int[], %s::text[], %s::text[]) AS given (hash, generation, state, detail)
        WHERE o.hash = given.hash AND o.generation = given.generation AND o.state = 'stored'
        RETURNING o.source, o.state, o.size
        """,
        [list(column) for column in zip(*verdicts, strict=True)],
    )
    tally = Tally()
    for source, state, size in rows:
        if state == "verified":
            tally[source, "objects_verified"] += 1
            tally[source, "bytes_verified"] += size
        else:
            tally[source, "objects_condemned"] += 1
            for name in ("claimed", "stored"):
                tally[source, f"objects_{name}"] -= 1
                tally[source, f"bytes_{name}"] -= size
    return tally


def claim_of(row: tuple[Any, ...], *, resumed: bool) -> Claim:
    """The claim of a row of ``CLAIM_COLUMNS``."""
    content, generation, size, parts, source, topic, partition, epoch, upload_id, deferred = row
    return Claim(content, generation, size, parts, source, Owner(topic, partition, epoch), upload_id, resumed, deferred)


def owner_columns(owners: Iterable[Owner]) -> list[list[object]]:
    """Topics, partitions and epochs, as unnest takes them."""
    listed = list(owners)
    return [[one.topic for one in listed], [one.partition for one in listed], [one.epoch for one in listed]]


def fenced(lost: Iterable[Owner]) -> Fenced:
    """The error of a write that came under an epoch that is not the newest."""
    names = ", ".join(sorted(f"{one.topic}/{one.partition} (epoch {one.epoch})" for one in lost))
    return Fenced(
        f"a newer owner has taken {names}.",
        asked="Write about claims of an input partition.",
        kept="Nothing was written; the newer owner goes on from the last committed offsets.",
        advice="Nothing to do: this member drops its batch and joins its group again.",
    )
