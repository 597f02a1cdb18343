"""``headwater cast report``: what became of a cast, target by target."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.cast import quantities
from headwater.cli.frame import AsJson

if TYPE_CHECKING:
    from headwater.cli.cast.outcome import Floor, Outcome, Target
    from headwater.schemas.cast_history import CastHistory

Cast = Annotated[str, typer.Argument(metavar="NAME", help="Its newest cast; or a cast's number.")]
Nic = Annotated[
    float | None,
    typer.Option(parser=quantities.rate, metavar="RATE", help="Of each link, to state the floor: 25Gbps, 3GB/s."),
]
Oversubscription = Annotated[float, typer.Option("--oversub", min=1, help="Of a rack's uplink: 8 is 8:1.")]
Mtu = Annotated[
    int | None,
    typer.Option(min=576, max=65_535, help="With it, --nic counts the wire's bits, headers too; else the payload's."),
]

STYLES = {
    "complete": "green",
    "installed": "green",
    "partial": "bold red",
    "aborted": "bold red",
    "failed": "bold red",
    "refused": "bold red",
    "lost": "bold red",
    "missing": "yellow",
    "running": "cyan",
    "receiving": "cyan",
    "waiting": "yellow",
}
_SHOWN = 60
"""A thousand lines are no report for people: those in order are summed up, unless --all."""


def report(
    context: typer.Context,
    cast: Cast,
    nic: Nic = None,
    oversubscription: Oversubscription = 1.0,
    mtu: Mtu = None,
    every: Annotated[bool, typer.Option("--all", help="Each target, also where there are very many.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what became of a cast, target by target.

    Each with the root that it verified. GB is 10⁹ bytes. Times are those of the log; a host's seconds are of its own
    clock. Exit code 0 when all targets installed the file, 3 when some did not, 1 when it was aborted, 75 while it
    runs.
    """
    from headwater.cli.cast.outcome import floor_of, outcome
    from headwater.connectors.kafka.cast_log import CastLog

    with closing(CastLog(frame.of(context).kafka, cast)) as log:
        history = log.history
    found = outcome(history, time.time_ns() // 1_000)
    floor = None if nic is None else floor_of(history, found, nic, oversubscription, mtu)
    if as_json:
        output.print_json(document(history, found, floor))
    else:
        _print(history, found, floor, every)
    if found.status.exit_code:
        raise typer.Exit(found.status.exit_code)


def document(history: CastHistory, found: Outcome, floor: Floor | None) -> dict[str, Any]:
    manifest = history.manifest
    return {
        "name": manifest.name,
        "epoch": manifest.epoch,
        "status": found.status,
        "reason": found.reason,
        "file_name": manifest.file_name,
        "size": manifest.chunks.size,
        "chunk_bytes": manifest.chunks.chunk_bytes,
        "chunks": manifest.chunks.count,
        "root": manifest.root,
        "origin": manifest.origin,
        "seconds": found.seconds,
        "floor": floor,
        "over_floor": found.seconds / floor.seconds if floor and floor.seconds else None,
        "copies_per_rack": found.copies_per_rack,
        "targets": found.targets,
    }


def _print(history: CastHistory, found: Outcome, floor: Floor | None, every: bool) -> None:
    console, manifest = output.console(), history.manifest
    console.print(heading(history, found))
    wrong = [target for target in found.targets if target.state != "installed"]
    shown = found.targets if every or len(found.targets) <= _SHOWN else wrong
    if shown:
        columns = ("host", "rack", "state", "incarnation", "root", "seconds", "received", "")
        rows = [_row(target, manifest.chunks.count) for target in shown]
        console.print(output.table(columns, rows, right=("seconds", "received")))
    if len(shown) < len(found.targets):
        output.say(console, f"\n{len(found.targets) - len(shown):,} more are in order: --all shows them.")
    output.say(console, Text())
    for line in sums(found, floor, manifest.chunks.size):
        output.say(console, line)


def heading(history: CastHistory, found: Outcome) -> Text:
    manifest = history.manifest
    said = Text(f"{manifest.name} ", style="bold").append(f"(cast {manifest.epoch}) ", style="dim")
    said.append(found.status, style=STYLES[found.status])
    said.append(f": {found.reason}" if found.reason else "")
    size = output.size(manifest.chunks.size)
    said.append(f"\n{manifest.file_name}, {size} in {manifest.chunks.count:,} chunks, from {manifest.origin}")
    if manifest.root is not None:
        return said.append(f"\nroot {manifest.root.hex()}")
    return said.append(f"\n{manifest.hashed:,} of {manifest.chunks.count:,} chunks hashed")


def sums(found: Outcome, floor: Floor | None, size: int) -> list[Text]:
    """How many have it, how long it took, and that time over the floor."""
    lines = [Text(f"{found.installed:,} of {len(found.targets):,} targets installed it, {_rate(found, size)}")]
    if found.copies_per_rack is not None:
        lines.append(Text(f"each rack took in {found.copies_per_rack:.2f} times the file"))
    if floor is not None:
        wire = "whatever the MTU" if floor.mtu is None else f"MTU {floor.mtu}, headers taken off"
        lines.append(
            Text(
                f"floor {floor.seconds:,.2f} s by the {floor.resource}, at {floor.nic / 1e9:,.3f} GB/s of payload each "
            )
            .append(f"way ({wire}); T / floor = ")
            .append(f"{found.seconds / floor.seconds:.2f}" if floor.seconds else "–", style="bold")
        )
    else:
        lines.append(Text("floor: give --nic (and --oversub), the rate of the links, to have it stated", style="dim"))
    return lines


def _rate(found: Outcome, size: int) -> str:
    took = f"T = {found.seconds:,.2f} s since the announcement"
    return f"{took} ({size / found.seconds / 1e9:,.3f} GB/s each)" if found.seconds and size else took


def _row(target: Target, chunks: int) -> tuple[str | Text, ...]:
    part = "" if target.root or not target.chunks else f"{target.chunks:,} of {chunks:,} chunks"
    return (
        target.host,
        target.rack or "(none)",
        Text(target.state, style=STYLES.get(target.state, "")),
        "" if target.incarnation is None else str(target.incarnation),
        target.root.hex()[:16] if target.root else "",
        "" if target.seconds is None else f"{target.seconds:,.2f}",
        output.size(target.received_bytes) if target.received_bytes else "",
        "; ".join(filter(None, (part, target.reason))),
    )
