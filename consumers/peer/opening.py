"""How a cast's file is opened: made anew, found with what an earlier run left in it, or installed by one."""

from __future__ import annotations

from headwater.consumers.peer.bytes.folder import CastFolder
from headwater.consumers.peer.bytes.install import Target, installed
from headwater.consumers.peer.bytes.partial import PartialFile
from headwater.consumers.peer.bytes.quota import make_room
from headwater.consumers.peer.bytes.seed import InstalledFile
from headwater.consumers.peer.config import PeerConfig
from headwater.observe import logs
from headwater.rules.errors import NotFound, Refused, Torn
from headwater.schemas.cast_manifest import Manifest, ManifestState

log = logs.logger()


def open_store(manifest: Manifest, folder: CastFolder, config: PeerConfig) -> PartialFile | InstalledFile | None:
    """The store of a cast, with the chunks that were found and proven; None: its file was installed, and what is there
    now cannot be served.

    Takes as long as reading what is there. Raises Refused where a newer cast of the name is installed, and as
    ``make_room`` and ``PartialFile`` do.
    """
    found = installed(folder, manifest.name)
    if found is not None and found.epoch > manifest.epoch:
        raise Refused(f"cast {found.epoch} of {manifest.name} is installed, which is newer")
    if found is not None and found.epoch == manifest.epoch and found.present:
        return _installed(manifest, folder)
    make_room(folder, config, Target(manifest.name, manifest.epoch, manifest.file_name, manifest.chunks.size))
    store = PartialFile(folder, manifest.name, manifest.epoch, manifest.file_name, manifest.chunks)
    store.learn(0, manifest.hashes)
    for chunk in store.left_over():
        if chunk < manifest.hashed:
            store.rehash(chunk)
    return store


def _installed(manifest: Manifest, folder: CastFolder) -> InstalledFile | None:
    if manifest.state is not ManifestState.sealed:
        return None
    try:
        return InstalledFile(folder.path / manifest.file_name, manifest.chunks, manifest.hashes)
    except (NotFound, Torn) as error:
        log.warning("cast.not_served", cast=manifest.name, epoch=manifest.epoch, reason=error.happened)
        return None
