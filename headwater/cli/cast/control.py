"""``headwater cast abort | rm | limit``: an operator's word to a cast."""

from __future__ import annotations

import getpass
import socket
from typing import Annotated

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.cast import quantities
from headwater.cli.frame import AsJson, Frame
from headwater.rules.errors import BadSettings

Name = Annotated[str, typer.Argument(help="The cast's name, as `headwater cast list` shows it.")]


def abort(
    context: typer.Context,
    name: Name,
    reason: Annotated[str, typer.Option(help="Why, for those who wait for the file.")],
    as_json: AsJson = False,
) -> None:
    """Stop a cast that runs, for good.

    Peers stop within seconds and delete what is not whole. Files that were installed already stay, and so does what was
    installed before under the same name. To go on after all, publish the file again.
    """
    from headwater.producers.caster import telling

    the = frame.of(context)
    aborted = telling.abort(the.kafka, the.catalog, name, _operator(), reason)
    drop_spare_copies(the)
    if as_json:
        output.print_json({"name": name, "epoch": aborted.epoch, "state": aborted.state, "reason": aborted.reason})
        return
    output.say(output.console(), f"Cast {name} {aborted.epoch} is aborted. Files that were installed stay.")


def remove(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The cast's name: all that was cast under it.")] = None,
    expired: Annotated[bool, typer.Option("--expired", help="Every cast whose time is over, instead of one.")] = False,
    reason: Annotated[str, typer.Option(help="Why, for those who ask later.")] = "it is no longer needed",
    as_json: AsJson = False,
) -> None:
    """Remove a cast: parts on peers, and its copy in S3.

    A cast that still runs ends with it. Files that were installed whole stay where they are, on every host: they are
    their owner's, and headwater deletes none. The log and the catalog remember that there was such a cast.
    """
    from headwater.connectors.catalog import casts
    from headwater.producers.caster import telling

    if (name is None) is not expired:
        raise BadSettings(
            "both a name and --expired are given." if expired else "neither a name nor --expired is given.",
            asked="Casts were to be removed.",
            kept="Nothing was changed.",
            advice="Give one of the two.",
        )
    the = frame.of(context)
    with the.catalog.transaction() as transaction:
        wanted = casts.of_name(transaction, name) if name is not None else casts.expired(transaction)
    removed = telling.remove(the.kafka, the.catalog, wanted, _operator(), reason)
    copies = drop_spare_copies(the)
    if as_json:
        output.print_json({"removed": [{"name": one.name, "epoch": one.epoch} for one in removed], "copies": copies})
        return
    said = f"Removed {', '.join(f'{one.name} {one.epoch}' for one in removed)}" if removed else "Nothing was to remove"
    output.say(output.console(), f"{said}{f', and {copies} copies in S3' if copies else ''}. Installed files stay.")


def limit(
    context: typer.Context,
    name: Name,
    rate: Annotated[
        float | None, typer.Option(parser=quantities.rate, metavar="RATE", help="The most: 500MB/s, 4Gbps.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Lift the limit.")] = False,
    host: Annotated[str | None, typer.Option(help="Only this host. Default: each host.")] = None,
    rack: Annotated[str | None, typer.Option(help="This rack, all of its hosts together.")] = None,
    as_json: AsJson = False,
) -> None:
    """Bound how fast a cast may go, while it goes.

    For what each host sends, and for what it receives. A host's own limit goes before that of each host; a rack's holds
    beside them. Peers follow within seconds.
    """
    from headwater.producers.caster import telling

    if (rate is None) is not off or (host is not None and rack is not None):
        raise BadSettings(
            "--host and --rack are given together." if host and rack else "it takes either --rate or --off.",
            asked=f"The rate of cast {name} was to be limited.",
            kept="Nothing was changed.",
            advice="For example: --rate 500MB/s, --rate 4Gbps --rack r7, --off.",
        )
    the = frame.of(context)
    most = None if rate is None else max(1, int(rate))
    cast = telling.limit(the.kafka, the.catalog, name, most, host=host, rack=rack, reason=f"said by {_operator()}")
    if as_json:
        document = {"name": name, "epoch": cast.epoch, "bytes_per_second": most, "host": host, "rack": rack}
        output.print_json(document)
        return
    whom = f"rack {rack}" if rack else f"host {host}" if host else "each host"
    bound = "has no limit of its own now" if most is None else f"may take {output.size(most)}/s"
    output.say(output.console(), Text(f"Cast {name} {cast.epoch}: {whom} {bound}."))


def _operator() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def drop_spare_copies(the: Frame) -> int:
    """Delete the copies in S3 that no cast needs any more; how many. S3 is asked only where there is one."""
    from headwater.connectors.catalog import casts
    from headwater.producers.caster.copy import drop_copies

    with the.catalog.transaction() as transaction:
        spare = casts.spare_copies(transaction)
    return drop_copies(the.store, the.catalog, spare) if spare else 0
