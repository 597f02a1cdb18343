"""The five steps of a version: killed after each, unclear answers, two committers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from headwater.connectors.catalog import versions
from headwater.connectors.lakefs.client import LakeFS
from headwater.rules.errors import BadSettings, Corrupt, Fenced, Unavailable, Unclear
from headwater.streams.commit.announcer import Announcer
from headwater.streams.commit.writer import VersionWriter

_CHILD = """
import json, os, signal, sys
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.lakefs.client import LakeFS
from headwater.connectors.lakefs.config import LakeFSConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.streams.commit.committer import Committer
from headwater.streams.commit.config import CommitConfig
from headwater.streams.commit.announcer import Announcer
from headwater.streams.commit.writer import VersionWriter

where, step, call, end = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
owner = {"Announcer": Announcer, "VersionWriter": VersionWriter, "LakeFS": LakeFS}[step.partition(".")[0]]
method = step.partition(".")[2]
original = getattr(owner, method)
calls = 0

def dying(self, *arguments, **named):
    global calls
    result = original(self, *arguments, **named)
    calls += 1
    if calls == call:
        print("reached", flush=True)
        os.kill(os.getpid(), getattr(signal, end))
    return result

setattr(owner, method, dying)
Committer(
    CommitConfig(where["dataset"], poll_seconds=0.02),
    catalog=Catalog(CatalogConfig(where["dsn"])),
    objects=ObjectStore(S3Config.from_url(where["bucket"])),
    lakefs=LakeFS(LakeFSConfig.from_url(where["lakefs"])),
    kafka=Kafka(KafkaConfig(where["kafka"], prefix=where["prefix"])),
).run()
"""


def child(world: Any, step: str, call: int = 1, end: str = "SIGKILL") -> subprocess.Popen[str]:
    """A committer in a process of its own that sends itself a signal right after the step (its ``call``-th call)."""
    arguments = [sys.executable, "-c", _CHILD, json.dumps(asdict(world.addresses)), step, str(call), end]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def request(world: Any) -> int:
    with world.catalog.transaction() as transaction:
        return versions.request_commit(transaction, world.dataset, "")


def commits_on_main(world: Any) -> list[str]:
    """Version numbers of the commits that main has, oldest first, without the repository's first."""
    found, commit = [], world.lakefs.head_of(world.dataset, "main")
    while commit.metadata:
        found.append(commit.metadata["version"])
        commit = world.lakefs.head_of(world.dataset, commit.parents[0])
    return found[::-1]


STEPS = [
    ("VersionWriter.freeze", 1),
    ("VersionWriter.write_manifest", 1),
    ("VersionWriter.link_branch", 1),
    ("LakeFS.commit", 1),
    ("VersionWriter.commit_branch", 1),
    ("VersionWriter.publish", 1),
    ("Announcer.announce", 1),
    ("VersionWriter.follow", 2),  # the first call settles the version that was there before
]


@pytest.mark.fault
@pytest.mark.parametrize(("step", "call"), STEPS)
def test_killed_after_a_step_the_next_committer_ends_with_one_version(world: Any, step: str, call: int) -> None:
    world.write(b"kept", b"kept")
    world.write(b"edited", b"before")
    world.write(b"moved", b"moved")
    world.commit()
    world.write(b"edited", b"afterwards")
    world.rename(b"moved", b"there")
    frozen = world.expected_listing()
    asked = request(world)
    dying = child(world, step, call)
    output, _ = dying.communicate(timeout=60)
    assert (dying.returncode, output.count("reached")) == (-signal.SIGKILL, 1), output
    world.write(b"late", b"after the crash")

    world.start()
    answered = world.answer(asked)
    assert not world.stop()

    assert answered.version == 2
    assert world.listing("v2") == world.listing("main") == frozen
    assert commits_on_main(world) == ["1", "2"]
    assert [record.version for record in world.announced()] == [1, 2]
    assert world.lakefs.branches(world.dataset, "ingest") == []
    world.commit()
    assert world.listing("v3") == world.expected_listing()


@pytest.mark.fault
@pytest.mark.parametrize("step", ["VersionWriter.freeze", "VersionWriter.commit_branch", "VersionWriter.publish"])
def test_a_committer_that_slept_through_a_takeover_is_fenced(world: Any, step: str) -> None:
    world.write(b"a", b"a")
    asked = request(world)
    sleeper = child(world, step, end="SIGSTOP")
    try:
        assert sleeper.stdout is not None
        while "reached" not in sleeper.stdout.readline():
            assert sleeper.poll() is None

        world.start()
        assert world.answer(asked).version == 1
        assert not world.stop()
        sleeper.send_signal(signal.SIGCONT)
        rest, _ = sleeper.communicate(timeout=60)
    finally:
        sleeper.kill()

    assert sleeper.returncode == 1
    assert "Fenced" in rest
    assert "another committer" in rest
    assert [record.version for record in world.announced()] == [1]
    assert commits_on_main(world) == ["1"]
    assert world.listing("main") == world.expected_listing()


def test_the_older_of_two_committers_stops_with_a_clear_message(world: Any, eventually: Callable[..., Any]) -> None:
    def epoch() -> int:
        with world.catalog.transaction() as transaction:
            row = versions.find(transaction, world.dataset)
        return row.committer_epoch if row else 0

    world.start()
    eventually(lambda: epoch() == 1, within_seconds=30)

    with world.catalog.transaction() as transaction:
        versions.take_over(transaction, world.dataset, world.dataset)
    error = world.wait_for_end()

    assert isinstance(error, Fenced)
    assert "started after this one" in str(error)
    assert "Run one committer for each dataset" in str(error)


def test_two_committers_that_freeze_at_once_make_one_intent(world: Any) -> None:
    world.write(b"a", b"a")
    older = world.committer()._take_over()
    newer = world.committer()._take_over()

    with pytest.raises(Fenced):
        older.freeze()
    intent = newer.freeze()

    assert (intent.version, intent.epoch) == (1, newer.epoch)


def test_a_commit_whose_answer_is_lost_is_found_on_its_branch(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = LakeFS.commit
    commits = []

    def lost(self: LakeFS, *arguments: Any) -> Any:
        commits.append(original(self, *arguments).id)
        raise Unclear("the answer was lost")

    monkeypatch.setattr(LakeFS, "commit", lost)
    world.write(b"a", b"a")

    version = world.commit()

    assert [version.commit_id] == commits


def test_a_commit_that_did_not_happen_is_tried_again(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = LakeFS.commit
    calls = iter(range(100))

    def failing_first(self: LakeFS, *arguments: Any) -> Any:
        if next(calls) < 2:
            raise Unclear("the connection broke")
        return original(self, *arguments)

    monkeypatch.setattr(LakeFS, "commit", failing_first)
    world.write(b"a", b"a")

    version = world.commit()

    assert world.listing(version.commit_id) == world.expected_listing()
    assert commits_on_main(world) == ["1"]


def test_a_publication_whose_answer_is_lost_is_not_made_twice(
    world: Any, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> None:
    original = VersionWriter.publish

    def lost(self: VersionWriter, *arguments: Any) -> None:
        original(self, *arguments)
        raise Unavailable("the database went away")

    monkeypatch.setattr(VersionWriter, "publish", lost)
    world.write(b"a", b"a")
    world.start(changes=1)

    eventually(lambda: world.announced(), within_seconds=20)

    assert not world.stop()
    assert [record.version for record in world.announced()] == [1]
    assert commits_on_main(world) == ["1"]


def test_an_announcement_whose_answer_is_lost_is_not_made_twice(
    world: Any, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> None:
    original = Announcer.announce
    calls: list[Any] = []

    def lost(self: Announcer, *arguments: Any) -> None:
        original(self, *arguments)
        calls.append(arguments)
        if len(calls) == 1:
            raise Unavailable("the broker went away")

    monkeypatch.setattr(Announcer, "announce", lost)
    world.write(b"a", b"a")
    world.start(changes=1)

    eventually(lambda: len(calls) == 2, within_seconds=20)

    assert not world.stop()
    assert [record.version for record in world.announced()] == [1]


def test_a_stranger_on_the_ingest_branch_stops_the_version(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = VersionWriter.link_branch

    def disturbed(self: VersionWriter, *arguments: Any) -> str:
        branch = original(self, *arguments)
        (entry,) = world.lakefs.list_objects(world.dataset, branch)
        world.lakefs.link(world.dataset, branch, [replace(entry, path="films/stranger")], at_once=1)
        return branch

    monkeypatch.setattr(VersionWriter, "link_branch", disturbed)
    world.write(b"a", b"a")
    request(world)
    world.start()

    error = world.wait_for_end()

    assert isinstance(error, Corrupt)
    assert "films/stranger" in str(error)
    assert "Nothing was published" in str(error)
    with world.catalog.transaction() as transaction:
        assert versions.newest(transaction, world.dataset) is None


def test_enough_changes_make_a_version_unasked(world: Any, eventually: Callable[..., Any]) -> None:
    for number in range(3):
        world.write(b"%d" % number, b"recorded before any committer ran")
    world.start(changes=3)
    eventually(lambda: [record.version for record in world.announced()] == [1], within_seconds=20)
    for number in range(3):
        world.write(b"%d" % number, b"edited")

    eventually(lambda: [record.version for record in world.announced()] == [1, 2], within_seconds=20)

    assert not world.stop()
    assert world.listing("v2") == world.expected_listing()


def test_time_makes_a_version_unasked(world: Any, eventually: Callable[..., Any]) -> None:
    world.write(b"a", b"a")
    world.start(every_seconds=0.05)
    eventually(lambda: [record.version for record in world.announced()] == [1], within_seconds=20)
    world.write(b"b", b"b")

    eventually(lambda: [record.version for record in world.announced()] == [1, 2], within_seconds=20)

    assert not world.stop()
    assert commits_on_main(world) == ["1", "2"]


def test_a_name_that_lakefs_would_not_take_is_a_bad_setting(world: Any) -> None:
    with pytest.raises(BadSettings, match=r"'My_Films' cannot name a lakeFS repository.*lower-case"):
        world.committer(repository="My_Films").run()


def test_a_dataset_does_not_move_to_another_repository(world: Any) -> None:
    world.write(b"a", b"a")
    world.commit()

    with pytest.raises(BadSettings, match=f"lives in the lakeFS repository {world.dataset}"):
        world.committer(repository="elsewhere").run()


def test_a_committer_that_waits_says_why_and_goes_on(
    world: Any, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> None:
    original = LakeFS.link
    is_up = threading.Event()

    def down(self: LakeFS, *arguments: Any, **named: Any) -> int:
        if not is_up.is_set():
            raise Unavailable("lakeFS does not answer")
        return original(self, *arguments, **named)

    monkeypatch.setattr(LakeFS, "link", down)
    world.write(b"a", b"a")
    committer = world.start(changes=1)
    eventually(lambda: committer.trouble == "lakeFS does not answer", within_seconds=20)
    is_up.set()

    eventually(lambda: world.announced(), within_seconds=20)

    assert not world.stop()
    assert committer.trouble == ""
    assert commits_on_main(world) == ["1"]
