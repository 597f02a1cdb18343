"""How a publication looks while it goes on, and what is said of it at its end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from rich.console import Group
from rich.text import Text

from headwater.cli import output
from headwater.cli.cast.audience import Audience
from headwater.cli.cast.publication import Ending, Publication
from headwater.cli.errors import INTERRUPTED
from headwater.rules.cast.chunks import HASH_BYTES
from headwater.schemas.cast_records import CastRack

PARTIAL = 3
"""Exit code of a cast that expired before everybody had it: those who lack it are named."""
_NAMED = 10
"""More hosts than these are counted instead of named."""


def shown(publication: Publication) -> Group:
    """The live view: what is hashed, and each rack."""
    cast, caster, audience = publication.cast, publication.caster, publication.audience
    head = Text(f"cast {cast.name} {cast.epoch}", style="bold").append(f"  {cast.file_name}", "not bold")
    head.append(f"  {output.size(cast.size)}", "not bold")
    hashed, of = len(caster.hashes) // HASH_BYTES, caster.chunks.count
    if publication.root is not None:
        head.append("  sealed", "not bold green")
    else:
        head.append(f"  {hashed:,} of {of:,} chunks hashed", "not bold cyan")
    lines = [head, _totals(audience)]
    if publication.copying and publication.copy is not None:
        lines.append(Text(f"copy in S3: {output.size(publication.copy.sent)} of {output.size(cast.size)}", "dim"))
    troubles = (caster.waits, publication.copy.trouble if publication.copy is not None else "")
    lines += [Text(trouble, style="yellow") for trouble in troubles if trouble]
    rows = list(_racks(audience, of))
    columns = ("rack", "hosts", "installed", "slowest has", "median", "rate", "")
    return Group(*lines, output.table(columns, rows, right=columns[1:-1])) if rows else Group(*lines)


def _totals(audience: Audience) -> Text:
    expected = audience.expected
    if not expected:
        return Text("no peer is there that it is for", style="yellow")
    return Text(f"{len(expected & audience.installed.keys()):,} of {len(expected):,} hosts have it")


def _racks(audience: Audience, chunks: int) -> list[tuple[Any, ...]]:
    hosts = Counter(host.rack for host in audience.present)
    installed = Counter(audience.installed.values())
    rows = []
    for rack in sorted(hosts.keys() | installed.keys()):
        told = audience.racks.get(rack)
        more = _told(told, chunks) if told is not None else ("", "", "", "")
        rows.append((rack or "(no rack)", f"{hosts[rack]:,}", f"{installed[rack]:,}", *more))
    return rows


def _told(rack: CastRack, chunks: int) -> tuple[str, ...]:
    slow = f"slow: {', '.join(rack.slow[:_NAMED])}" if rack.slow else ""
    return _share(rack.least, chunks), _share(rack.median, chunks), f"{output.size(rack.bytes_per_second)}/s", slow


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "100 %"


def finish(publication: Publication, ending: Ending, seconds: float, *, as_json: bool) -> None:
    """Say how it ended, and end with its exit code."""
    audience, root = publication.audience, publication.root
    missing = sorted(audience.missing)
    if as_json:
        output.print_json(
            {
                "name": publication.cast.name,
                "epoch": publication.cast.epoch,
                "ending": ending,
                "sealed": root is not None,
                "root": root,
                "size": publication.cast.size,
                "seconds": round(seconds, 3),
                "installed": sorted(audience.installed),
                "missing": missing,
                "copied": publication.copied,
            },
            lines=True,
        )
    else:
        output.say(output.console(), _said(publication, ending, seconds, missing))
    if ending is Ending.interrupted:
        raise typer.Exit(INTERRUPTED)
    if ending is Ending.expired and missing:
        raise typer.Exit(PARTIAL)


def _said(publication: Publication, ending: Ending, seconds: float, missing: list[str]) -> Text:
    cast = f"Cast {publication.cast.name} {publication.cast.epoch}"
    hosts = f"{len(publication.audience.installed):,} hosts have it"
    if publication.root is None:
        return Text(f"{cast} is aborted: the file was not hashed to its end. Peers keep what they had before.")
    if ending is Ending.complete:
        return Text(f"{cast} is complete: {hosts}, after {output.duration(seconds)}.", style="green")
    named = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else "")
    lack = f" These lack it: {named}." if missing else ""
    if ending is Ending.expired:
        return Text(f"{cast} has expired: {hosts}.{lack}", style="yellow" if missing else "")
    source = "from each other, and from the copy in S3" if publication.copied else "from each other"
    again = "" if publication.copied else " Chunks that no peer has yet come only when you publish the file again."
    return Text(
        f"{cast} goes on without this origin: {hosts}.{lack} They get it {source}, until the cast expires.{again} "
        f"`headwater cast report {publication.cast.name}` says how far they are."
    )
