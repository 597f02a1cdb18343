"""How a cast's partial file is opened: made anew, or found with what an earlier run left in it."""

from __future__ import annotations

from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.install import Target, installed
from headwater.consumers.peer.bytes.partial import PartialFile
from headwater.consumers.peer.bytes.quota import make_room
from headwater.consumers.peer.config import PeerConfig
from headwater.rules.errors import Refused
from headwater.schemas.cast_manifest import Manifest


def open_partial(manifest: Manifest, folder: CastFolder, config: PeerConfig) -> PartialFile | None:
    """The store of a cast, with the chunks that were found and proven; None: its file is installed already.

    Takes as long as reading what is there. Raises Refused where a newer cast of the name is installed, and as
    ``make_room`` and ``PartialFile`` do.
    """
    found = installed(folder, manifest.name)
    if found is not None and found.epoch > manifest.epoch:
        raise Refused(f"cast {found.epoch} of {manifest.name} is installed, which is newer")
    if found is not None and found.epoch == manifest.epoch and found.present:
        return None
    make_room(folder, config, Target(manifest.name, manifest.epoch, manifest.file_name, manifest.chunks.size))
    store = PartialFile(folder, manifest.name, manifest.epoch, manifest.file_name, manifest.chunks)
    store.learn(0, manifest.hashes)
    for chunk in store.left_over():
        if chunk < manifest.hashed:
            store.rehash(chunk)
    return store
