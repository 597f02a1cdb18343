"""Which names a folder takes for one, whatever case or Unicode form they have."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable

from headwater.consumers.dataset.folder import nearest_to, stays_below
from headwater.rules.collisions import Collision, collisions


def taken_for_one(root: bytes, paths: Iterable[bytes]) -> list[Collision]:
    """The collisions of ``paths`` that would happen below ``root``; paths that do not stay below it are passed over.

    Each filesystem folds by a table of its own, and ext4 in some directories only. So the two names of each possible
    collision are tried: in a directory of their own that is made, and removed, in the nearest directory to their place
    that is there. Death in between leaves that directory, ``.headwater-names-*``, with nothing but empty directories.
    Raises OSError.
    """
    possible = collisions(sorted(path for path in paths if stays_below(path)))
    return [collision for collision in possible if _are_one(root, collision)]


def _are_one(root: bytes, collision: Collision) -> bool:
    one, other = os.path.basename(collision.first), os.path.basename(collision.other)
    with nearest_to(root, collision.first) as folder:
        apart = b".headwater-names-" + secrets.token_hex(8).encode()
        os.mkdir(apart, dir_fd=folder)
        try:
            os.mkdir(os.path.join(apart, one), dir_fd=folder)
            try:
                os.mkdir(os.path.join(apart, other), dir_fd=folder)
            except FileExistsError:
                return True
            else:
                os.rmdir(os.path.join(apart, other), dir_fd=folder)
                return False
            finally:
                os.rmdir(os.path.join(apart, one), dir_fd=folder)
        finally:
            os.rmdir(apart, dir_fd=folder)
