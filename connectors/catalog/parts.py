"""Parts of large contents while they are uploaded, and afterwards: what verify compares ranges with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.connectors.catalog.client import Transaction
from headwater.connectors.catalog.objects import Claim, fenced


@dataclass(frozen=True, slots=True)
class Part:
    """One part of one generation of a content. ``etag`` is None until S3 is known to have it."""

    hash: bytes
    generation: int
    index: int
    first_byte: int
    length: int
    part_hash: bytes
    etag: str | None = None


def add_parts(transaction: Transaction, parts: Sequence[Part]) -> None:
    """Add the parts that are not there yet."""
    if not parts:
        return
    transaction.execute(
        """
        INSERT INTO object_parts (hash, generation, index, first_byte, length, part_hash)
        SELECT * FROM unnest(%s::bytea[], %s::int[], %s::int[], %s::bigint[], %s::bigint[], %s::bytea[])
        ON CONFLICT DO NOTHING
        """,
        [
            [one.hash for one in parts],
            [one.generation for one in parts],
            [one.index for one in parts],
            [one.first_byte for one in parts],
            [one.length for one in parts],
            [one.part_hash for one in parts],
        ],
    )


def parts_of(
    transaction: Transaction, objects: Iterable[tuple[bytes, int]], *, missing: bool = False
) -> dict[tuple[bytes, int], list[Part]]:
    """The parts of these (hash, generation), in order; with ``missing`` only those that S3 does not have yet."""
    pairs = sorted(set(objects))
    rows = transaction.execute(
        f"""
        SELECT p.hash, p.generation, p.index, p.first_byte, p.length, p.part_hash, p.etag
        FROM object_parts p JOIN unnest(%s::bytea[], %s::int[]) AS given (hash, generation) USING (hash, generation)
        {"WHERE p.etag IS NULL" if missing else ""} ORDER BY p.hash, p.generation, p.index
        """,
        [[pair[0] for pair in pairs], [pair[1] for pair in pairs]],
    )
    found: dict[tuple[bytes, int], list[Part]] = {pair: [] for pair in pairs}
    for row in rows:
        found[row[0], row[1]].append(Part(*row))
    return found


def first_parts(transaction: Transaction, claims: Iterable[Claim]) -> dict[tuple[bytes, int], Part]:
    """Part 0 of each claim that has one, by (hash, generation)."""
    listed = list(claims)
    rows = transaction.execute(
        """
        SELECT p.hash, p.generation, p.index, p.first_byte, p.length, p.part_hash, p.etag
        FROM object_parts p JOIN unnest(%s::bytea[], %s::int[]) AS given (hash, generation) USING (hash, generation)
        WHERE p.index = 0
        """,
        [[one.hash for one in listed], [one.generation for one in listed]],
    )
    return {(row[0], row[1]): Part(*row) for row in rows}


def finished(transaction: Transaction, claims: Iterable[Claim]) -> list[Claim]:
    """Those of the claims of which every part is in S3."""
    listed = list(claims)
    rows = transaction.execute(
        """
        SELECT hash, generation FROM object_parts
        JOIN unnest(%s::bytea[], %s::int[], %s::int[]) AS given (hash, generation, parts) USING (hash, generation)
        GROUP BY hash, generation, parts HAVING count(etag) = parts
        """,
        [[one.hash for one in listed], [one.generation for one in listed], [one.parts for one in listed]],
    )
    complete = {(row[0], row[1]) for row in rows}
    return [one for one in listed if (one.hash, one.generation) in complete]


def hold_claims(transaction: Transaction, claims: Iterable[Claim]) -> None:
    """Check that the claims are still ours, and keep it so until the transaction ends. Raises Fenced."""
    held = {(one.hash, one.generation): one for one in claims}
    rows = transaction.execute(
        """
        SELECT o.hash, o.generation
        FROM objects o JOIN unnest(%s::bytea[], %s::int[], %s::text[], %s::int[], %s::bigint[])
            AS given (hash, generation, topic, partition, epoch) USING (hash, generation)
        WHERE o.state = 'uploading'
            AND (o.claim_topic, o.claim_partition, o.claim_epoch) = (given.topic, given.partition, given.epoch)
        ORDER BY o.hash FOR UPDATE OF o
        """,
        [
            [one.hash for one in held.values()],
            [one.generation for one in held.values()],
            [one.owner.topic for one in held.values()],
            [one.owner.partition for one in held.values()],
            [one.owner.epoch for one in held.values()],
        ],
    )
    lost = held.keys() - {(row[0], row[1]) for row in rows}
    if lost:
        raise fenced(held[key].owner for key in lost)


def save_upload(transaction: Transaction, claim: Claim, upload_id: str) -> None:
    """Note the multipart upload of a claim that is held."""
    transaction.execute(
        "UPDATE objects SET upload_id = %s, changed_at = now() WHERE hash = %s AND generation = %s",
        [upload_id, claim.hash, claim.generation],
    )


def mark_sent(transaction: Transaction, claim: Claim, etags: Mapping[int, str]) -> None:
    """S3 has these parts (ETags by index) of a claim that is held."""
    transaction.execute(
        """
        UPDATE object_parts p SET etag = given.etag
        FROM unnest(%s::int[], %s::text[]) AS given (index, etag)
        WHERE p.hash = %s AND p.generation = %s AND p.index = given.index
        """,
        [list(etags), list(etags.values()), claim.hash, claim.generation],
    )


def forget_sent(transaction: Transaction, claim: Claim) -> None:
    """Nothing is known of what S3 has of a claim that is held."""
    transaction.execute(
        "UPDATE object_parts SET etag = NULL WHERE hash = %s AND generation = %s AND etag IS NOT NULL",
        [claim.hash, claim.generation],
    )


def abandoned_uploads(transaction: Transaction, hashes: Iterable[bytes]) -> list[tuple[bytes, int, str]]:
    """(hash, generation, upload id) of contents that are gone while S3 may still hold parts of them."""
    rows = transaction.execute(
        "SELECT hash, generation, upload_id FROM objects"
        " WHERE hash = ANY(%s) AND state = 'gone' AND upload_id IS NOT NULL",
        [sorted(set(hashes))],
    )
    return rows.fetchall()


def forget_uploads(transaction: Transaction, abandoned: Iterable[tuple[bytes, int, str]]) -> None:
    """These uploads are aborted."""
    listed = list(abandoned)
    transaction.execute(
        """
        UPDATE objects o SET upload_id = NULL
        FROM unnest(%s::bytea[], %s::int[], %s::text[]) AS given (hash, generation, upload_id)
        WHERE o.hash = given.hash AND o.generation = given.generation AND o.upload_id = given.upload_id
            AND o.state = 'gone'
        """,
        [[one[0] for one in listed], [one[1] for one in listed], [one[2] for one in listed]],
    )
