"""Anything may happen to a tree, in any order, with the agent running, stopped, killed or deaf: after quiet, the log
and the index say what the tree is, and never said anything of a file that it was not.

Six days in an ordinary run, the same ones each time; ``HEADWATER_HYPOTHESIS=deep`` draws new ones, hundreds of them.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.kafka.client import Kafka
from headwater.producers.filesystem.config import AgentConfig
from headwater.schemas.records import ChangeKind
from tests.any_tree import CHANGES, DEEP, AnyTree, Change, Found

Eventually = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Episode:
    """Changes in a row, a pause after each. ``agent``: what it does meanwhile; ``quiet``: wait until it has all."""

    agent: str
    changes: list[Change]
    pause_milliseconds: int
    quiet: bool


AGENT = st.sampled_from(["follows", "follows", "was stopped", "was killed", "is killed", "sleeps", "is deaf"])
DAYS = st.lists(
    st.builds(
        Episode,
        agent=AGENT,
        changes=st.lists(CHANGES, min_size=10, max_size=40),
        pause_milliseconds=st.sampled_from([0, 0, 1, 10]),
        quiet=st.booleans(),
    ),
    min_size=2,
    max_size=5,
)


class Nursery:
    """Starts agents; see agent_nursery.py."""

    def __init__(self, kafka: Kafka, catalog: Catalog) -> None:
        self._servers = {
            "kafka": kafka.config.bootstrap_servers,
            "prefix": kafka.config.prefix,
            "catalog": catalog.config.dsn,
        }
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("agent_nursery.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def start(self, config: AgentConfig, folder: Path) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({**self._servers, "config": asdict(config), "folder": str(folder)}, default=str)
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def nursery(kafka: Kafka, catalog: Catalog) -> Iterator[Nursery]:
    nursery = Nursery(kafka, catalog)
    yield nursery
    nursery.close()


class Follower:
    """The agent of one source through all its lives, of which at most one lasts."""

    def __init__(self, nursery: Nursery, config: AgentConfig, folder: Path) -> None:
        self._nursery, self._config, self._folder = nursery, config, folder
        self._process: int | None = None
        self._pid = 0

    def live(self) -> None:
        if self._process is None:
            (self._folder / "status").unlink(missing_ok=True)
            self._pid = self._nursery.start(self._config, self._folder)
            self._process = os.pidfd_open(self._pid)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        signal.pidfd_send_signal(self._process, number)

    def is_asleep(self) -> bool:
        """SIGSTOP is sent; each thread runs on until it notices."""
        states = [
            task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{self._pid}/task").glob("*/stat")
        ]
        return all(state == "T" for state in states)

    def end(self, number: signal.Signals) -> None:
        """No more of this life, once it is over."""
        if self._process is not None:
            self.send(number)
            assert select.select([self._process], [], [], 30)[0], f"alive 30 s after {number.name}: {self.log()}"
            os.close(self._process)
            self._process = None

    def status(self) -> dict[str, Any]:
        """The newest one of this life; empty while there is none."""
        path = self._folder / "status"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def is_idle(self) -> bool:
        assert self._process is not None
        assert not select.select([self._process], [], [], 0)[0], self.log()
        busy = ("dirty", "settling", "reading", "held", "outbox", "pending", "directories_due")
        status = self.status()
        return bool(status) and status["walked"] and not any(status[name] for name in busy)

    def log(self) -> str:
        return (self._folder / "log").read_text()


def told(cloud: Any) -> dict[bytes, Found]:
    return {
        path: Found(record.hash or record.link_target, record.mtime_ns, record.mode, record.uid, record.gid)
        for path, record in cloud.newest().items()
    }


def indexed(config: AgentConfig) -> dict[bytes, Found]:
    """The rows of the stopped agent's index."""
    query = "SELECT directory, name, coalesce(hash, link_target), mtime_ns, mode, uid, gid FROM files"
    database = sqlite3.connect(config.state_folder / "index.sqlite")
    try:
        return {os.path.join(directory, name): Found(*found) for directory, name, *found in database.execute(query)}
    finally:
        database.close()


class Day:
    def __init__(self, folder: Path, config: AgentConfig, nursery: Nursery, cloud: Any, eventually: Eventually) -> None:
        self.tree = AnyTree(config.root, folder)
        self.config, self.cloud, self.eventually = config, cloud, eventually
        self.agent = Follower(nursery, config, config.state_folder.parent)

    def pass_by(self, episode: Episode) -> None:
        middle = len(episode.changes) // 2
        match episode.agent:
            case "follows":
                self.agent.live()
                self._do(episode, episode.changes)
            case "was stopped" | "was killed":
                self.agent.end(signal.SIGTERM if episode.agent == "was stopped" else signal.SIGKILL)
                self._do(episode, episode.changes)
            case "is killed":
                self.agent.live()
                self._do(episode, episode.changes[:middle])
                self.agent.end(signal.SIGKILL)
                self._do(episode, episode.changes[middle:])
            case "sleeps":
                self.agent.live()
                self.agent.send(signal.SIGSTOP)
                self.eventually(self.agent.is_asleep)
                self._do(episode, episode.changes)
                self.agent.send(signal.SIGCONT)
            case "is deaf":
                self.agent.live()
                self._deafen(lambda: self._do(episode, episode.changes))
        self.agent.live()
        if episode.quiet:
            self.tree.close()
            self.wait_until_quiet()

    def _do(self, episode: Episode, changes: list[Change]) -> None:
        for change in changes:
            self.tree.do(change)
            time.sleep(episode.pause_milliseconds / 1000)  # part of the day, not a wait for anything
            self.cloud.read()

    def _deafen(self, act: Callable[[], None]) -> None:
        """While the agent sleeps its queue of events overflows, and what happens then is told by no event."""
        self.eventually(lambda: self.agent.status().get("walked"), 20)
        before = self.agent.status()["overflows"]
        self.agent.send(signal.SIGSTOP)
        self.eventually(self.agent.is_asleep)
        queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        anchors = [self.config.root / "anchor", self.config.root / "second anchor"]
        anchors[1].touch()
        for number in range(queue + 10):  # two equal events in a row would become one
            os.utime(anchors[number % 2])
        act()
        anchors[1].unlink(missing_ok=True)
        self.agent.send(signal.SIGCONT)
        self.eventually(lambda: self.agent.status()["overflows"] > before, 20)

    def wait_until_quiet(self) -> None:
        """Until the agent has nothing to do and has said what the tree is; what differs is shown otherwise."""
        tree, specials, deadline = self.tree.state(), self.tree.specials(), time.monotonic() + 60
        while not (self._told() == (tree, specials) and self.agent.is_idle()):
            if time.monotonic() > deadline:
                assert self._told() == (tree, specials), self.agent.log()
                pytest.fail(f"never quiet: {self.agent.status()}")

    def _told(self) -> tuple[dict[bytes, Found], set[bytes]]:
        return told(self.cloud.read()), set(self.cloud.exceptions())

    def judge(self) -> None:
        self.wait_until_quiet()
        self.agent.end(signal.SIGTERM)
        tree = self.tree.state()
        assert self._told() == (tree, self.tree.specials())
        assert indexed(self.config) == tree
        assert {record.hash for record in self.cloud.records if record.hash is not None} <= self.tree.whole
        assert {record.kind for record in self.cloud.records if record.path == b"anchor"} <= {
            ChangeKind.created,
            ChangeKind.metadata,
        }
        by_clock = {record.clock: record for record in self.cloud.records}
        assert len(by_clock) == len(set(self.cloud.records)), "a clock names two states"
        assert "Traceback" not in self.agent.log()


@pytest.mark.timeout(0 if DEEP else 300)
@settings(
    max_examples=400 if DEEP else 6,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # what hangs on timing does not shrink
    suppress_health_check=list(HealthCheck),
)
@given(day=DAYS)
def test_after_any_day_the_log_and_the_index_say_what_the_tree_is(
    day: list[Episode],
    tmp_path_factory: pytest.TempPathFactory,
    nursery: Nursery,
    make_cloud: Callable[[str], Any],
    eventually: Eventually,
    quick_config: Callable[[Path, str], AgentConfig],
) -> None:
    folder = tmp_path_factory.mktemp("day")
    (folder / "outside").mkdir()
    settings_of_the_day = {"settle_seconds": 0.05, "delete_hold_seconds": 0.3, "deletes_unasked": 10_000, "exclude": ()}
    config = replace(quick_config(folder, f"s{uuid.uuid4().hex[:8]}"), **settings_of_the_day)
    with make_cloud(config.source) as cloud:
        passing = Day(folder / "outside", config, nursery, cloud, eventually)
        try:
            for episode in day:
                passing.pass_by(episode)
            passing.tree.close()
            passing.judge()
        finally:
            passing.tree.close()
            passing.agent.end(signal.SIGKILL)
