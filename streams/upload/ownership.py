"""The epochs under which a lane writes: one per input partition, taken anew with every assignment."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.connectors.catalog import objects
from headwater.connectors.catalog.client import Catalog, Transaction
from headwater.connectors.catalog.objects import Owner
from headwater.schemas.topics import Topic
from headwater.streams.runtime.processor import Batch


class Ownership:
    """Used by the lane's one step thread."""

    def __init__(self, catalog: Catalog, topic: Topic) -> None:
        self._catalog = catalog
        self._topic = topic
        self._assignment: int | None = None
        self._owners: dict[int, Owner] = {}

    def take(self, batch: Batch, also: Iterable[int] = ()) -> None:
        """Make sure that each partition of the batch, and of ``also``, has an epoch of the present assignment."""
        if batch.assignment != self._assignment:
            self._owners.clear()
            self._assignment = batch.assignment
        missing = ({one.partition for one in batch.inputs} | set(also)) - self._owners.keys()
        if missing:
            with self._catalog.transaction() as transaction:
                taken = objects.own_partitions(transaction, self._topic.name, missing)
            self._owners.update(taken)

    def owner(self, partition: int) -> Owner:
        return self._owners[partition]

    def hold(self, transaction: Transaction, partitions: Iterable[int]) -> list[Owner]:
        """Check that no newer owner took these partitions, and keep it so until the transaction ends. Raises Fenced."""
        owners = [self._owners[partition] for partition in sorted(set(partitions))]
        objects.hold_partitions(transaction, owners)
        return owners
