"""What the catalog decided about casts, told to peers on the log; and the three words of an operator to a cast.

1. decide   one catalog transaction: the state, its reason, who said it, and that the log does not have it yet
2. tell     the record on the log, until it is acknowledged
3. note     in the catalog that it was told

A crash after 1 leaves an untold state: the same command again tells it, or the next publisher of that name or on that
host. A crash after 2 tells it twice, which changes nothing for those who read it.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.connectors.catalog import actions, casts
from headwater.connectors.catalog.casts import Cast
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.producers.caster.manifest import ManifestLog
from headwater.rules.errors import Refused
from headwater.schemas.cast_manifest import ManifestState
from headwater.schemas.cast_records import ManifestKind

_PATIENCE_SECONDS = 15.0
"""How long a command waits for the log: longer than a broker's restart."""

_KINDS = {
    ManifestState.sealed: ManifestKind.sealed,
    ManifestState.aborted: ManifestKind.aborted,
    ManifestState.removed: ManifestKind.removed,
}


def tell(kafka: Kafka, catalog: Catalog, untold: Sequence[Cast], *, seconds: float = _PATIENCE_SECONDS) -> None:
    """Steps 2 and 3 of casts that ended or were sealed. Raises Unavailable where the log is away for so long."""
    if not untold:
        return
    manifests = ManifestLog(kafka, seconds=seconds)
    for cast in untold:
        manifests.say(cast.name, cast.epoch, _KINDS[cast.state], reason=cast.reason, root=cast.root)
    manifests.settle()
    with catalog.transaction() as transaction:
        for cast in untold:
            casts.told(transaction, cast.epoch, cast.state)


def abort(kafka: Kafka, catalog: Catalog, name: str, operator: str, reason: str) -> Cast:
    """End the newest cast of a name. Raises NotFound, and Refused where it had ended before."""
    with catalog.transaction() as transaction:
        newest = casts.of_name(transaction, name)[0]
        number = actions.begin(transaction, operator, "abort a cast", f"cast:{newest.epoch}", reason, {"name": name})
        if casts.end(transaction, newest.epoch, ManifestState.aborted, reason):
            actions.finish(transaction, number)
        elif newest.told:
            raise Refused(
                f"cast {name} {newest.epoch} is {newest.state} already: {newest.reason}.",
                asked=f"Cast {name} was to be aborted.",
                kept="Nothing was changed.",
            )
        aborted = casts.by_epoch(transaction, newest.epoch)
    tell(kafka, catalog, [aborted])
    return aborted


def remove(kafka: Kafka, catalog: Catalog, wanted: Sequence[Cast], operator: str, reason: str) -> list[Cast]:
    """End casts for good, those that are removed already but for what is untold of them; returns those that were."""
    with catalog.transaction() as transaction:
        removed = [one for one in wanted if casts.end(transaction, one.epoch, ManifestState.removed, reason)]
        for one in removed:
            subject = f"cast:{one.epoch}"
            number = actions.begin(transaction, operator, "remove a cast", subject, reason, {"name": one.name})
            actions.finish(transaction, number)
        now = [casts.by_epoch(transaction, one.epoch) for one in wanted]
    tell(kafka, catalog, [one for one in now if not one.told])
    return removed


def limit(
    kafka: Kafka,
    catalog: Catalog,
    name: str,
    bytes_per_second: int | None,
    *,
    host: str | None = None,
    rack: str | None = None,
    reason: str,
) -> Cast:
    """Bound the rate of the newest cast of a name from now on; None lifts the bound. It is for each host, unless one
    is named, or a rack for all of its hosts together. Raises NotFound, and Refused where the cast has ended.
    """
    with catalog.transaction() as transaction:
        newest = casts.of_name(transaction, name)[0]
    if not newest.lives:
        state = "expired" if newest.expired else newest.state
        raise Refused(
            f"cast {name} {newest.epoch} is {state}.",
            asked=f"The rate of cast {name} was to be limited.",
            kept="Nothing was changed.",
        )
    manifests = ManifestLog(kafka, seconds=_PATIENCE_SECONDS)
    manifests.say(
        name,
        newest.epoch,
        ManifestKind.limited,
        host=host,
        rack=rack,
        bytes_per_second=bytes_per_second,
        reason=reason,
    )
    manifests.settle()
    return newest
