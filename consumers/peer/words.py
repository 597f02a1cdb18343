"""The records that a peer says of its part in a cast."""

from __future__ import annotations

import time

from headwater.consumers.peer.surroundings import Surroundings
from headwater.consumers.peer.swarm.actions import Note
from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import CastEvent, CastProgress, CastState


def progress(
    peer: Surroundings,
    manifest: Manifest,
    state: CastState,
    *,
    chunks: int,
    received_bytes: int,
    outside_bytes: int,
    seconds: float,
    reason: str,
) -> CastProgress:
    """A step. The root is said with it where every chunk of it was verified."""
    host, incarnation = peer.who
    whole = state in (CastState.complete, CastState.installed)
    return CastProgress(
        epoch=manifest.epoch,
        name=manifest.name,
        host=host,
        incarnation=incarnation,
        rack=peer.rack,
        state=state,
        chunks=chunks,
        received_bytes=received_bytes,
        outside_bytes=outside_bytes,
        seconds=seconds,
        root=manifest.root if whole else None,
        reason=reason,
        at_us=time.time_ns() // 1_000,
    )


def event(peer: Surroundings, epoch: int, note: Note) -> CastEvent:
    """Something that an operator may want to know."""
    host, incarnation = peer.who
    return CastEvent(
        epoch=epoch,
        host=host,
        incarnation=incarnation,
        kind=note.kind,
        about_host=None if note.about is None else note.about[0],
        about_incarnation=None if note.about is None else note.about[1],
        chunks=note.chunks,
        reason=note.reason,
        at_us=time.time_ns() // 1_000,
    )
