"""The parts of one large content come as an emission: records 0 to count - 1, in order, of one reading of a file.

An emission may be cut off by a torn file, come twice, or come again in other cuts; these rules say which parts of a
batch belong to which claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.connectors.catalog.files import SourceRow
from headwater.connectors.catalog.objects import Claim
from headwater.connectors.catalog.parts import Part
from headwater.rules.errors import BadRecord
from headwater.schemas.records import FilePart
from headwater.streams.runtime.processor import Input
from headwater.streams.upload.records import check_path, of_type


@dataclass(frozen=True, slots=True)
class PartInput:
    """One record of the batch and where it was read."""

    cause: Input
    record: FilePart

    @property
    def partition(self) -> int:
        return self.cause.partition


def checked(one: Input) -> PartInput:
    """The part that a record describes. Raises BadRecord."""
    record = of_type(one, FilePart)
    check_path(record.path)
    inside = 0 <= record.offset < record.offset + record.length <= record.size
    if not inside or not 0 <= record.index < record.count:
        raise BadRecord(
            f"part {record.index} of {record.count}, bytes {record.offset} + {record.length}, does not fit into"
            f" {record.size} bytes.",
            asked=f"Send a part of {record.display} of source {record.source}.",
            kept="Nothing was written for it.",
            advice="No agent writes such a part: look at who produced the record (headwater dead show).",
        )
    return PartInput(one, record)


def of_present_owner(record: FilePart, sources: Mapping[str, SourceRow]) -> bool:
    """Whether the owner of the source wrote it."""
    return record.source in sources and record.epoch >= sources[record.source].epoch


def cut_otherwise(
    claims: Sequence[Claim], first: Mapping[bytes, FilePart], known: Mapping[tuple[bytes, int], Part]
) -> list[Claim]:
    """Open claims of which a new emission begins here that was cut differently: the old one will never be complete,
    as its agent's index or its part size is another now.
    """

    def differs(claim: Claim) -> bool:
        new, old = first.get(claim.hash), known.get((claim.hash, claim.generation))
        if new is None:
            return False
        recut = old is not None and (new.length, new.part_hash) != (old.length, old.part_hash)
        return recut or new.count != claim.parts

    return [claim for claim in claims if differs(claim)]


def belonging(inputs: Iterable[PartInput], claims: Mapping[bytes, Claim], *, opened_here: set[bytes]) -> list[Part]:
    """The parts of the batch that an open claim waits for. Of a claim that this batch opens, those from part 0 on:
    what stands before it in the log is the rest of an earlier emission, which may have been cut differently.
    """
    reached: set[bytes] = set()
    rows: list[Part] = []
    for one in (each.record for each in inputs):
        if one.index == 0:
            reached.add(one.hash)
        claim = claims.get(one.hash)
        if claim is None or claim.parts != one.count or (one.hash in opened_here and one.hash not in reached):
            continue
        rows.append(Part(one.hash, claim.generation, one.index, one.offset, one.length, one.part_hash))
    return rows
