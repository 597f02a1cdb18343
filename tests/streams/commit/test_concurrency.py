"""Versions made while changes are recorded: each holds what its cut promises, and the last holds everything."""

from __future__ import annotations

import random
import time
from typing import Any

from headwater.connectors.catalog import versions
from headwater.connectors.manifests import Manifests
from headwater.rules.identity import content_hash

History = dict[bytes, list[tuple[int, bytes | None]]]
"""Of each path its states: (seq, hash of the content; None: gone)."""


def published(world: Any) -> list[versions.Version]:
    with world.catalog.transaction() as transaction:
        return versions.published(transaction, world.dataset, 1000)[::-1]


def live(world: Any, steps: int, seed: int, until_versions: int) -> History:
    """Write, rename and delete at random, with a checkpoint now and then, at least until so many versions are made."""
    chance = random.Random(seed)
    paths = [b"%d" % number for number in range(8)]
    history: History = {}

    def note(path: bytes, content: bytes | None) -> None:
        history.setdefault(path, []).append((world.seq, content))

    deadline, step = time.monotonic() + 60, 0
    while step < steps or (len(published(world)) < until_versions and time.monotonic() < deadline):
        step += 1
        path, other, what = chance.choice(paths), chance.choice(paths), chance.random()
        if what < 0.2 and path in world.tree and path != other:
            content = content_hash(world.tree[path])
            world.rename(path, other)
            note(path, None)
            note(other, content)
        elif what < 0.35 and path in world.tree:
            world.delete(path)
            note(path, None)
        else:
            data = b"step %d of %d" % (step, seed)
            world.write(path, data, verified=chance.random() < 0.9)
            note(path, content_hash(data))
        if chance.random() < 0.2:
            world.checkpoint()
    return history


def test_each_version_holds_what_its_cut_promises(world: Any) -> None:
    world.start(every_seconds=0.0, poll_seconds=0.0)

    history = live(world, steps=150, seed=20, until_versions=4)
    for data in list(world.tree.values()):
        world.verified(data)
    world.checkpoint()
    assert not world.stop()
    world.commit()

    made = published(world)
    assert len(made) > 3
    for version in made:
        with world.catalog.transaction() as transaction:
            chain = versions.manifests_of(transaction, world.dataset, version.version)
        held = {row.path: row.hash for row in Manifests(world.objects).files(chain)}
        promised = version.cut["films"]["complete_to"] or 0
        excepted = {bytes.fromhex(named["path"]) for named in version.cut["films"]["exceptions"]}
        for path, states in history.items():
            last_promised = max((seq for seq, _ in states if seq <= promised), default=0)
            allowed = {content for seq, content in states if seq >= last_promised}
            assert held.get(path) in allowed | ({None} if not last_promised else set()) or path in excepted
    assert world.listing("main") == world.expected_listing()
    assert made[-1].exceptions == 0
    assert [record.version for record in world.announced()] == [version.version for version in made]
