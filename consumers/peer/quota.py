"""Room for a new cast: the oldest that nobody uses or pins goes."""

from __future__ import annotations

from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.peer.folder import CastFolder


def make_room(folder: CastFolder, config: PeerConfig, needed: int) -> list[str]:
    """Removes old casts until ``needed`` more bytes stay within ``config.quota_bytes``; returns their names.

    A file is in use while a peer serves it or anybody has it open. Raises NoSpace where that is not enough: nothing
    was removed then.
    """
    raise NotImplementedError
