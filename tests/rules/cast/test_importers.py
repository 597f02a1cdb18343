from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.rules.cast.importers import children, key_of, parent, ranked, told

CHUNKS = np.arange(400, dtype=np.int64)


def keys(epoch: int, names: list[str]) -> np.ndarray:
    return np.array([key_of(epoch, name) for name in names], np.uint64)


@given(st.integers(1, 1 << 40), st.integers(2, 12), st.data())
@settings(max_examples=40)
def test_a_host_that_leaves_moves_only_its_own_chunks(epoch: int, count: int, data: st.DataObject) -> None:
    names = [f"host{number}" for number in range(count)]
    gone = data.draw(st.integers(0, count - 1))
    rest = [name for number, name in enumerate(names) if number != gone]
    before = [[names[at] for at in row if at != gone] for row in ranked(CHUNKS, keys(epoch, names))]
    after = [[rest[at] for at in row] for row in ranked(CHUNKS, keys(epoch, rest))]
    assert before == after


def test_every_chunk_has_one_importer_and_hosts_import_about_the_same() -> None:
    order = ranked(np.arange(5961, dtype=np.int64), keys(7, [f"host{number}" for number in range(40)]))
    assert all(sorted(row) == list(range(40)) for row in order[::97])
    imported = np.bincount(order[:, 0], minlength=40)
    assert imported.sum() == 5961
    # 149 each on average; so many draws of one in forty leave (mean + 5 sigma) with a chance under one in 10,000.
    assert imported.min() > 149 - 60
    assert imported.max() < 149 + 60


@given(st.integers(1, 300), st.data())
def test_the_tree_reaches_every_rack_once(racks: int, data: st.DataObject) -> None:
    reached = [0]
    for position in reached:
        reached.extend(children(position, racks))
    assert sorted(reached) == list(range(racks))
    position = data.draw(st.integers(0, racks - 1))
    assert all(parent(child) == position for child in children(position, racks))
    assert set(told(position, racks)) == set(children(position, racks)) | ({parent(position)} - {None})
