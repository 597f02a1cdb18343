"""An agent on a real folder, a real broker and a real catalog, and a tiny cloud side that believes what it reads."""

from __future__ import annotations

import ctypes
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.offsets import ends
from headwater.connectors.kafka.topics import apply
from headwater.producers.filesystem.agent import Agent
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.status import AgentStatus
from headwater.schemas import codec, topics
from headwater.schemas.records import ChangeKind, FileChange, FilePart
from headwater.stack.postgres import create_database, database_address

SITE = "here"
TOPICS = (topics.fs_changes(SITE), topics.fs_parts(SITE), topics.SYNC_REQUESTS)


@dataclass
class Cloud:
    """Reads the agent's topics from now on, and can stand in for upload and verify."""

    kafka: Kafka
    catalog: Catalog
    source: str
    records: list[FileChange] = field(default_factory=list)
    parts: list[FilePart] = field(default_factory=list)
    checkpoints: dict[int, tuple[int, int]] = field(default_factory=dict)
    verifies: bool = True

    def __post_init__(self) -> None:
        self._consumer = self.kafka.consumer("test.cloud")
        # Tests share topics; each has its own source and looks at what comes after its beginning.
        places = [(self.kafka.physical(topic), number) for topic in TOPICS[:2] for number in range(topic.partitions)]
        end = ends(self.kafka, places)
        self._consumer.assign([TopicPartition(topic, partition, at) for (topic, partition), at in end.items()])

    def read(self) -> Cloud:
        """Take what has arrived and, if it ``verifies``, say in the catalog that everything is recorded and safe."""
        new: list[FileChange] = []
        for message in self._consumer.consume(1000, timeout=0.05):
            assert message.error() is None
            record = codec.decode(message.value())
            assert isinstance(record, FilePart | FileChange)
            assert record.source == self.source
            if isinstance(record, FilePart):
                self.parts.append(record)
            elif record.kind is ChangeKind.checkpoint:
                partition = message.partition()
                assert partition is not None
                self.checkpoints[partition] = max(self.checkpoints.get(partition, (0, 0)), (record.epoch, record.seq))
            else:
                new.append(record)
        self.records += new
        if self.verifies:
            self._verify(new)
        return self

    def _verify(self, new: list[FileChange]) -> None:
        with self.catalog.transaction() as transaction:
            for record in new:
                if record.hash is not None:
                    transaction.execute(
                        "INSERT INTO objects (hash, generation, state, size, source, claim_topic, claim_partition, "
                        "claim_epoch) VALUES (%s, 1, 'verified', %s, %s, '', 0, 0) ON CONFLICT DO NOTHING",
                        [record.hash, record.size, record.source],
                    )
            for partition, (epoch, seq) in self.checkpoints.items():
                transaction.execute(
                    "INSERT INTO checkpoints VALUES (%s, %s, %s, %s) ON CONFLICT (source, partition) "
                    "DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq",
                    [self.source, partition, epoch, seq],
                )

    def of(self, path: bytes) -> list[FileChange]:
        """The changes of one path, in the order of their clocks, replays once."""
        return sorted({record for record in self.records if record.path == path}, key=lambda record: record.clock)

    def newest(self) -> dict[bytes, FileChange]:
        """What a version would hold: the newest state of each path that is there."""
        state: dict[bytes, FileChange] = {}
        changes = {record for record in self.records if record.kind not in (ChangeKind.excepted, ChangeKind.cleared)}
        for record in sorted(changes, key=lambda record: record.clock):
            if record.kind is ChangeKind.renamed:
                assert record.from_path is not None
                state.pop(record.from_path, None)
            if record.kind is ChangeKind.deleted:
                state.pop(record.path, None)
            else:
                state[record.path] = record
        return state

    def exceptions(self) -> dict[bytes, str]:
        named: dict[bytes, str] = {}
        for record in sorted(self.records, key=lambda record: record.clock):
            if record.kind is ChangeKind.excepted:
                named[record.path] = record.reason or ""
            if record.kind is ChangeKind.cleared:
                named.pop(record.path, None)
        return named

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture(scope="module")
def kafka(stack: Any) -> Kafka:
    kafka = Kafka(KafkaConfig(stack.kafka, prefix=f"t{uuid.uuid4().hex[:8]}."))
    apply(kafka, TOPICS)
    return kafka


@pytest.fixture(scope="module")
def catalog(stack: Any) -> Iterator[Catalog]:
    name = f"t{uuid.uuid4().hex[:12]}"
    create_database(stack.postgres, name)
    with Catalog(CatalogConfig(database_address(stack.postgres, name))) as catalog:
        catalog.migrate()
        yield catalog


@pytest.fixture
def source() -> str:
    return f"s{uuid.uuid4().hex[:8]}"


@pytest.fixture
def cloud(kafka: Kafka, catalog: Catalog, source: str) -> Iterator[Cloud]:
    with closing(Cloud(kafka, catalog, source)) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def make_cloud(kafka: Kafka, catalog: Catalog) -> Callable[[str], Any]:
    """The cloud side of a source, for tests that have many."""
    return lambda source: closing(Cloud(kafka, catalog, source))


def quick_config(folder: Path, source: str) -> AgentConfig:
    """An agent on ``folder``/root whose times are those of tests."""
    (folder / "root").mkdir()
    return AgentConfig(
        source=source,
        site=SITE,
        dataset="films",
        root=folder / "root",
        state_folder=folder / "state",
        settle_seconds=0.2,
        weak_settle_seconds=0.4,
        busy_seconds=1.0,
        retry_seconds=0.3,
        delete_hold_seconds=1.0,
        verified_poll_seconds=0.1,
        checkpoint_seconds=0.2,
        heartbeat_seconds=0.5,
    )


@pytest.fixture
def config(tmp_path: Path, source: str) -> AgentConfig:
    return quick_config(tmp_path, source)


@pytest.fixture(scope="session", name="quick_config")
def quick_config_fixture() -> Callable[[Path, str], AgentConfig]:
    return quick_config


@dataclass
class Running:
    agent: Agent
    thread: Thread
    failure: list[BaseException]

    @property
    def status(self) -> AgentStatus:
        return self.agent.status


def drop_capabilities() -> None:
    """This thread, and those that it starts, are bound by file modes and owners from now on (capabilities(7))."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for capability in (1, 2, 28):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_LEASE
        sets[0] &= ~(1 << capability)
    assert libc.capset(header, sets) == 0


Follow = Callable[..., Any]


@pytest.fixture
def follow(config: AgentConfig, kafka: Kafka, catalog: Catalog) -> Follow:
    """``with follow(setting=…) as running:`` an agent in a thread; it is stopped, and must not have failed.

    ``clock``: its wall clock; ``as_anybody``: without root's right to read and lease every file.
    """

    @contextmanager
    def run(
        *, as_anybody: bool = False, take_over: bool = False, clock: Callable[[], float] = time.time, **settings: Any
    ) -> Iterator[Running]:
        agent = Agent(replace(config, **settings), kafka, catalog, clock=clock)
        failure: list[BaseException] = []

        def work() -> None:
            try:
                if as_anybody:
                    drop_capabilities()
                agent.run(take_over=take_over)
            except BaseException as error:
                failure.append(error)

        thread = Thread(target=work, name="agent", daemon=True)
        thread.start()
        try:
            yield Running(agent, thread, failure)
        finally:
            agent.stop()
            thread.join(30)
            if failure:
                raise failure[0]

    return run


class PassThrough:
    """A TCP link to the catalog that can be cut and mended."""

    def __init__(self, dsn: str) -> None:
        found = conninfo_to_dict(dsn)
        self._target = (str(found["host"]), int(found["port"] or 5432))
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._is_cut = False
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self._server.getsockname()[1])
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if self._is_cut:
                near.close()
                continue
            far = socket.create_connection(self._target)
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                Thread(target=self._copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        self._is_cut = True
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        for connection in (self._server, *self._open):
            connection.close()


@pytest.fixture
def pass_through() -> Callable[[str], Any]:
    return lambda dsn: closing(PassThrough(dsn))


@pytest.fixture
def mounted() -> Callable[..., Any]:
    """``with mounted(folder, *arguments):`` arguments as mount(8) takes them before the folder."""

    @contextmanager
    def mount(folder: Path, *arguments: Any) -> Iterator[None]:
        done = subprocess.run(["mount", *arguments, folder], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"mount: {done.stderr.strip()}")
        try:
            yield
        finally:
            subprocess.run(["umount", folder], capture_output=True)

    return mount


@pytest.fixture(scope="session")
def few_watches() -> Callable[[int], list[str]]:
    """The beginning of a command that runs with so many inotify watches, in a user namespace of its own, whose limit
    it may raise: nobody else on this machine has fewer."""
    lower = 'echo "$0" > /proc/sys/user/max_inotify_watches && exec "$@"'
    begin = ["unshare", "--user", "--map-root-user", "sh", "-c", lower]
    tried = subprocess.run([*begin, "9", "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"no user namespace to lower the limit in: {tried.stderr.strip()}")
    return lambda count: [*begin, str(count)]
