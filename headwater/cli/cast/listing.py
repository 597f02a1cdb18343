"""``headwater cast list``: what was cast, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli import frame, output
from headwater.cli.frame import AsJson, Frame
from headwater.rules.errors import Unavailable
from headwater.schemas.cast_view import ORIGIN

if TYPE_CHECKING:
    from headwater.connectors.catalog.casts import Cast
    from headwater.schemas.cast_manifest import Manifest

_MOST = 1_000
"""Of the newest."""
_STYLES = {"sealed": "green", "hashing": "cyan", "aborted": "red"}


@dataclass(frozen=True, slots=True)
class Listed:
    """``state``: hashing, sealed, aborted, removed, expired, or replaced by a newer cast of its name."""

    name: str
    epoch: int
    state: str
    lives: bool
    reason: str
    file_name: str
    size: int
    origin: str
    targets: tuple[str, ...]
    root: bytes | None
    expires_at: datetime


def list_casts(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also those that ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the casts that live, newest first.

    Sealed means: the whole file is hashed, and peers may install it. From the catalog; from the log, where no catalog
    answers here.
    """
    the = frame.of(context)
    found = [one for one in _listed(the) if one.lives or every]
    if as_json:
        output.print_json(found)
        return
    console = output.console()
    if not found:
        output.say(console, "No cast." if every else "No cast lives: --all shows those that ended.")
        return
    rows = [
        (
            one.name,
            one.epoch,
            Text(one.state, style=_STYLES.get(one.state, "dim")),
            one.file_name,
            output.size(one.size),
            one.origin,
            ", ".join(one.targets) or "every peer",
            one.expires_at.astimezone().strftime("%Y-%m-%d %H:%M"),
            one.reason if one.state in ("aborted", "removed") else "",
        )
        for one in found
    ]
    columns = ("name", "cast", "state", "file", "size", "origin", "for", "expires", "")
    console.print(output.table(columns, rows, right=("cast", "size")))


def _listed(the: Frame) -> list[Listed]:
    from headwater.connectors.catalog import casts

    if the.settings.catalog is not None:
        try:
            with the.catalog.transaction() as transaction:
                return [_of_catalog(cast) for cast in casts.all_casts(transaction, _MOST)]
        except Unavailable as error:
            output.say(output.console(errors=True), Text(f"Told from the log: {error.happened}", style="yellow"))
    return _of_log(the)


def _of_catalog(cast: Cast) -> Listed:
    return Listed(
        name=cast.name,
        epoch=cast.epoch,
        state=_state(cast.state, newest=cast.newest, expired=cast.expired),
        lives=cast.lives,
        reason=cast.reason,
        file_name=cast.file_name,
        size=cast.size,
        origin=cast.origin,
        targets=tuple(cast.targets),
        root=cast.root,
        expires_at=cast.expires_at.astimezone(UTC),
    )


def _of_log(the: Frame) -> list[Listed]:
    manifests = _manifests(the)
    newest = {one.name: one.epoch for one in sorted(manifests, key=lambda one: one.epoch)}
    now_us = time.time_ns() // 1_000
    found = []
    for one in sorted(manifests, key=lambda one: one.epoch, reverse=True)[:_MOST]:
        is_newest, expired = newest[one.name] == one.epoch, one.expired(now_us)
        found.append(
            Listed(
                name=one.name,
                epoch=one.epoch,
                state=_state(one.state, newest=is_newest, expired=expired),
                lives=is_newest and not expired and not one.ended,
                reason=one.reason,
                file_name=one.file_name,
                size=one.chunks.size,
                origin=one.origin.rpartition(ORIGIN)[0],
                targets=one.targets,
                root=one.root,
                expires_at=datetime.fromtimestamp(one.expires_us / 1_000_000, UTC),
            )
        )
    return found


def _manifests(the: Frame) -> Iterable[Manifest]:
    from headwater.connectors.kafka.browse import Start, browse
    from headwater.rules.errors import BadRecord
    from headwater.schemas.cast_manifest import Manifests
    from headwater.schemas.cast_records import CastManifest
    from headwater.schemas.topics import CAST_MANIFESTS

    folded = Manifests()
    for seen in browse(the.kafka, CAST_MANIFESTS.name, Start("beginning")):
        if isinstance(seen.record, CastManifest):
            try:
                folded.take(seen.record)
            except BadRecord:
                continue  # of a cast whose beginning the log no longer holds
    return folded.by_epoch.values()


def _state(state: str, *, newest: bool, expired: bool) -> str:
    if state in ("aborted", "removed"):
        return state
    if not newest:
        return "replaced"
    return "expired" if expired else "hashing" if state == "announced" else state
