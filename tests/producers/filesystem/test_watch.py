"""The coalescing set, and which paths the kernel's events make dirty."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.tree import Tree, parent_of
from headwater.producers.filesystem.watch import Watch, open_watch
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.producers.filesystem.watch.fanotify import FanotifyWatch
from headwater.producers.filesystem.watch.inotify import InotifyWatch
from headwater.rules.errors import Refused

Eventually = Callable[..., Any]

PATHS = st.lists(st.sampled_from([b"%s/%d" % (d, n) for d in (b"a", b"a/b", b"c") for n in range(8)]), max_size=60)


@given(paths=PATHS, limit=st.integers(1, 10))
def test_every_dirty_path_is_named_by_itself_its_directory_or_everything(paths: list[bytes], limit: int) -> None:
    dirty = DirtySet(limit)
    for path in paths:
        dirty.add_path(path)
    assert len(dirty) <= limit + 1 + limit
    taken = dirty.take(1_000)
    assert len(taken.paths) == len(set(taken.paths))
    assert all(path in taken.paths or parent_of(path) in taken.directories or taken.everything for path in paths)
    assert len(dirty) == 0


def test_directories_and_trees_above_the_limit_become_everything() -> None:
    dirty = DirtySet(2)
    dirty.add_tree(b"a")
    dirty.add_directory(b"b")
    dirty.add_tree(b"c")
    assert dirty.take(10).everything


def test_what_does_not_fit_stays_in_the_set() -> None:
    dirty = DirtySet(10)
    for path in (b"1", b"2", b"3"):
        dirty.add_path(path)
    assert [dirty.take(2).paths, dirty.take(2).paths] == [(b"1", b"2"), (b"3",)]


@pytest.fixture(params=["inotify", "fanotify"])
def watched(request: Any, tmp_path: Path) -> Iterator[tuple[Path, Watch, DirtySet]]:
    (tmp_path / "root").mkdir()
    dirty = DirtySet(1_000)
    config = AgentConfig("s", "here", "films", tmp_path / "root", tmp_path / "state", watch=request.param)
    tree = Tree(config.root)
    with closing(Mounts(tree.root)) as mounts:
        try:
            watch = open_watch(config, tree, mounts, dirty, Event().set)
        except Refused as refused:
            pytest.skip(str(refused))
        watch.start()
        yield config.root, watch, dirty
        watch.close()


def test_events_name_the_path(watched: tuple[Path, Watch, DirtySet], eventually: Eventually) -> None:
    root, watch, dirty = watched
    watch.add(b"")
    (root / "file").write_bytes(b"x")
    eventually(lambda: b"file" in dirty.take(10).paths)
    os.truncate(root / "file", 0)
    eventually(lambda: b"file" in dirty.take(10).paths)
    (root / "file").chmod(0o600)
    eventually(lambda: b"file" in dirty.take(10).paths)
    (root / "folder").mkdir()
    eventually(lambda: b"folder" in dirty.take(10).trees)


def test_a_moved_directory_is_heard_under_its_new_name_once_it_is_added_again(
    watched: tuple[Path, Watch, DirtySet], eventually: Eventually
) -> None:
    root, watch, dirty = watched
    (root / "old/sub").mkdir(parents=True)
    for path in (b"", b"old", b"old/sub"):
        watch.add(path)
    (root / "old").rename(root / "new")
    trees: set[bytes] = set()
    eventually(lambda: trees.update(dirty.take(10).trees) or trees >= {b"old", b"new"})
    watch.add(b"new")
    watch.add(b"new/sub")
    (root / "new/sub/file").touch()
    eventually(lambda: b"new/sub/file" in dirty.take(10).paths)
    (root / "new/file").touch()
    eventually(lambda: b"new/file" in dirty.take(10).paths)


def test_a_name_of_any_bytes_is_heard(watched: tuple[Path, Watch, DirtySet], eventually: Eventually) -> None:
    root, watch, dirty = watched
    watch.add(b"")
    for name in (b"bad\xff.jpg", b"new\nline", b" \\ ", "\N{SNOWMAN}".encode()):
        (root / os.fsdecode(name)).touch()
        eventually(lambda name=name: name in dirty.take(10).paths)


def test_what_comes_from_outside_or_goes_there_is_heard_and_what_happens_there_is_not(
    watched: tuple[Path, Watch, DirtySet], eventually: Eventually
) -> None:
    root, watch, dirty = watched
    outside = root.parent / "outside"
    (outside / "sub").mkdir(parents=True)
    watch.add(b"")
    (outside / "sub/unheard").touch()
    (root.parent / "rootless").touch()
    (outside / "sub").rename(root / "sub")
    trees: set[bytes] = set()
    eventually(lambda: trees.update(dirty.take(10).trees) or trees == {b"sub"})
    watch.add(b"sub")
    (root / "sub/heard").touch()
    eventually(lambda: b"sub/heard" in dirty.take(10).paths)
    (root / "sub").rename(outside / "sub")
    trees.clear()
    eventually(lambda: trees.update(dirty.take(10).trees) or trees == {b"sub"})
    (outside / "sub/unheard again").touch()
    (root / "last").touch()
    eventually(lambda: dirty.take(10).paths == (b"last",))


def test_a_folder_that_is_seen_at_two_places_is_heard_at_both(
    watched: tuple[Path, Watch, DirtySet], eventually: Eventually, mounted: Any
) -> None:
    root, watch, dirty = watched
    (root / "here").mkdir()
    (root / "there").mkdir()
    with mounted(root / "there", "--bind", root / "here"):
        for path in (b"", b"here", b"there"):
            watch.add(path)
        (root / "here/file").touch()
        heard: set[bytes] = set()
        eventually(lambda: heard.update(dirty.take(10).paths) or heard == {b"here/file", b"there/file"})


def test_an_overflow_makes_everything_dirty(watched: tuple[Path, Watch, DirtySet], eventually: Eventually) -> None:
    root, watch, dirty = watched
    if isinstance(watch, FanotifyWatch):
        pytest.skip("its queue has no limit: test_fanotify.py has an overflow of one that does")
    watch.add(b"")
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    assert isinstance(watch, InotifyWatch)
    with watch._lock:  # the thread does not read meanwhile
        for number in range(limit // 2 + 1_000):  # a creation and a close each; a few are read before it waits
            (root / f"{number}").touch()
    eventually(lambda: dirty.take(0).everything)
    assert watch.overflows == 1


BEYOND_THE_LIMIT = """
import json, sys
from pathlib import Path
from headwater.producers.filesystem.tree import Tree
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.producers.filesystem.watch.inotify import InotifyWatch

root = Path(sys.argv[1])
watch = InotifyWatch(Tree(root), DirtySet(10), lambda: None)
heard = [watch.add(path) for path in (b"", b"a", b"b", b"c", b"b")]
low = (watch.unwatched, watch.limit)
Path("/proc/sys/user/max_inotify_watches").write_text("1000")
(root / "c").rmdir()
print(json.dumps([heard, low, [watch.add(path) for path in (b"b", b"c")], (watch.unwatched, watch.limit)]))
"""


def test_beyond_the_limit_of_watches_it_names_what_it_cannot_hear_and_tries_again(
    tmp_path: Path, few_watches: Callable[[int], list[str]]
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    child = [*few_watches(2), sys.executable, "-c", BEYOND_THE_LIMIT, str(tmp_path)]
    heard, (unwatched, limit), raised, after = json.loads(subprocess.check_output(child, text=True).splitlines()[-1])
    assert heard == [True, True, False, False, False]
    assert unwatched == 2
    assert limit.startswith(f"{tmp_path}/b and 1 more")
    assert "fs.inotify.max_user_watches" in limit
    assert raised == [True, True]
    assert after == [0, None]
