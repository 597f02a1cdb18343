"""What the catalog must say when a record of a lane goes to dead.letters."""

from __future__ import annotations

from headwater.connectors.catalog import counters, files, objects
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.exceptions import note_unreadable
from headwater.connectors.catalog.files import PathException, WaitingPath
from headwater.rules.errors import BadRecord, HeadwaterError
from headwater.rules.identity import subject_of
from headwater.schemas.records import FileChange, FilePart
from headwater.streams.runtime.processor import Input
from headwater.streams.upload.ownership import Ownership


def record_of(dead: Input) -> FileChange | FilePart | None:
    """What a lane reads, if that is what the message holds."""
    try:
        record = dead.record
    except BadRecord:
        return None
    return record if isinstance(record, FileChange | FilePart) else None


def name_subject(catalog: Catalog, dead: Input, error: HeadwaterError) -> None:
    """Of a change that cannot be read only the key says which path it was about: name that one."""
    subject = subject_of(dead.key or b"")
    if subject is not None:
        with catalog.transaction() as transaction:
            note_unreadable(transaction, *subject, dead.partition, files.DEAD_LETTERED + error.happened)


def give_up(
    catalog: Catalog, ownership: Ownership, partition: int, record: FileChange | FilePart, error: HeadwaterError
) -> list[WaitingPath]:
    """Name the path as an exception under the record's clock, and free the claim that the record holds on its content.

    Returns the other paths that waited for that claim: their agents are asked to send them again.
    """
    reason = files.DEAD_LETTERED + error.happened
    with catalog.transaction() as transaction:
        noted = PathException(record.source, record.path, record.epoch, record.seq, reason, active=True)
        files.note_exceptions(transaction, [noted])
        if record.hash is None:
            return []
        owners = ownership.hold(transaction, {partition})
        held = objects.take_over(transaction, owners, [record.hash])
        if not held:
            return []
        counters.add(transaction, objects.mark_gone(transaction, held, [reason] * len(held)))
        waiting = files.waiting_paths(transaction, [record.hash])
    return [one for one in waiting if (one.source, one.path) != (record.source, record.path)]
