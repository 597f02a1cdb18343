"""How a publication looks while it goes on, and what is said of it at its end."""

from __future__ import annotations

import typer
from rich.console import Group
from rich.text import Text

from headwater.cli import output
from headwater.cli.cast import audience, watch
from headwater.cli.cast.publication import Ending, Publication
from headwater.cli.errors import INTERRUPTED
from headwater.rules.cast.chunks import HASH_BYTES

PARTIAL = 3
"""Exit code of a cast that expired before everybody, or anybody, had it: those who lack it are named."""
_NAMED = 10
"""More hosts than these are counted instead of named."""


def shown(publication: Publication) -> Group:
    """What is hashed, copied and waited for; then what `headwater cast watch` shows."""
    caster, copy = publication.caster, publication.copy
    lines = []
    if publication.root is None:
        hashed = len(caster.hashes) // HASH_BYTES
        lines.append(Text(f"{hashed:,} of {caster.chunks.count:,} chunks hashed", style="cyan"))
    if publication.copying and copy is not None:
        of = output.size(publication.cast.size)
        lines.append(Text(f"copy in S3: {output.size(copy.sent)} of {of}", style="cyan"))
    troubles = (caster.waits, publication.blind, copy.trouble if copy is not None else "")
    lines += [Text(trouble, style="yellow") for trouble in troubles if trouble]
    return Group(watch.shown(watch.glance_at(publication.history, None, 1.0, None)), *lines)


def finish(publication: Publication, ending: Ending, seconds: float, *, as_json: bool) -> None:
    """Say how it ended, and end with its exit code."""
    root = publication.root
    missing, installed = sorted(audience.missing(publication.history)), audience.installed(publication.history)
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
                "installed": sorted(installed),
                "missing": missing,
                "copied": publication.copied,
            },
            lines=True,
        )
    else:
        output.say(output.console(), _said(publication, ending, seconds, missing, len(installed)))
    if ending is Ending.interrupted:
        raise typer.Exit(INTERRUPTED)
    if ending is Ending.expired and (missing or not installed):
        raise typer.Exit(PARTIAL)


def _said(publication: Publication, ending: Ending, seconds: float, missing: list[str], installed: int) -> Text:
    cast = f"Cast {publication.cast.name} {publication.cast.epoch}"
    hosts = f"{installed:,} host{' has' if installed == 1 else 's have'} it"
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
