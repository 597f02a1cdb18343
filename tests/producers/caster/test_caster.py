"""One file's cast: what it says on the log, and that it vouches for one whole state or says why not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from blake3 import blake3

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.topics import apply
from headwater.producers.caster.caster import Caster
from headwater.rules.cast.chunks import MIB
from headwater.rules.errors import BadSettings, Fenced, Torn, Unavailable
from headwater.schemas.cast_records import ManifestKind
from headwater.schemas.topics import CAST_MANIFESTS
from headwater.stack import processes
from headwater.stack.description import Ports
from headwater.stack.home import Place
from headwater.stack.kafka import Kafka as Broker
from headwater.stack.progress import silent
from headwater.stack.secrets import Secrets
from headwater.stack.server import wait_until_it_answers

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("size", [0, 1, MIB, 5 * MIB + 17])
def test_a_manifest_holds_the_hash_of_every_chunk_and_is_sealed(world: Any, size: int) -> None:
    path = world.file(size)
    caster = world.cast(path, targets=("a", "rack:r1"))

    manifest, data = world.manifest(caster.cast.epoch), path.read_bytes()
    assert manifest.state == "sealed"
    assert manifest.chunks.size == size
    assert [manifest.hash_of(n) for n in range(manifest.hashed)] == [
        blake3(data[at : at + MIB]).digest() for at in range(0, size, MIB)
    ]
    assert manifest.origin == f"{world.order.origin}/{caster.cast.epoch}"
    assert (manifest.targets, manifest.mtime_ns) == (("a", "rack:r1"), path.stat().st_mtime_ns)
    row = world.row(caster.cast.epoch)
    assert (row.state, row.told, row.root) == ("sealed", True, manifest.root)
    assert manifest.expires_us == int(row.expires_at.timestamp() * 1_000_000)


def test_hashes_are_on_the_log_before_the_last_chunk_is_hashed(world: Any, monkeypatch: Any, eventually: Any) -> None:
    """The last chunk is read only when the first hashes were seen on the log."""
    path = world.file(8 * MIB)
    world.config = type(world.config)(hash_threads=1, batch_chunks=2)
    original = os.preadv

    with world.caster(path) as caster:
        epoch = caster.announce().epoch

        def preadv(descriptor: int, buffers: Any, offset: int) -> int:
            if offset == 7 * MIB:
                eventually(lambda: any(one.kind is ManifestKind.hashes for one in world.records(epoch)), 20)
            return original(descriptor, buffers, offset)

        monkeypatch.setattr(os, "preadv", preadv)
        caster.run()
    assert world.manifest(epoch).state == "sealed"


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"y")


def write_in_place_with_the_times_set_back(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"y")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by_rename(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


def truncate(path: Path) -> None:
    os.truncate(path, 10)


@pytest.mark.parametrize("change", [append, write_in_place_with_the_times_set_back, replace_by_rename, truncate])
def test_a_source_that_changes_while_it_is_cast_is_never_sealed(world: Any, change: Callable[[Path], None]) -> None:
    path = world.file(3 * MIB)
    with world.caster(path) as caster:
        epoch = caster.announce().epoch
        change(path)
        with pytest.raises(Torn):
            caster.run()

    manifest, row = world.manifest(epoch), world.row(epoch)
    assert (manifest.state, manifest.root) == ("aborted", None)
    assert (row.state, row.told) == ("aborted", True)
    assert "the source changed" in manifest.reason or "the file ends" in manifest.reason
    assert ManifestKind.sealed not in [one.kind for one in world.records(epoch)]


def test_a_source_that_changes_behind_the_hashes_is_never_sealed(world: Any, monkeypatch: Any) -> None:
    """The first chunk changes after it was hashed, and no hash can show it."""
    path = world.file(3 * MIB)
    original = Caster.prove
    monkeypatch.setattr(Caster, "prove", lambda self: (write_in_place_with_the_times_set_back(path), original(self)))
    with world.caster(path) as caster:
        epoch = caster.announce().epoch
        with pytest.raises(Torn):
            caster.run()
    assert world.manifest(epoch).state == "aborted"


def test_a_source_that_is_open_for_writing_at_the_end_is_never_sealed(world: Any) -> None:
    path = world.file(MIB)
    with world.caster(path) as caster:
        epoch = caster.announce().epoch
        with path.open("r+b"), pytest.raises(Torn, match="opened it for writing"):
            caster.run()
    assert world.manifest(epoch).state == "aborted"


def test_the_older_of_two_publishers_is_told_and_the_newer_wins(world: Any) -> None:
    path = world.file(2 * MIB)
    with world.caster(path, origin="host-old") as older, world.caster(path, origin="host-new") as newer:
        first, second = older.announce().epoch, newer.announce().epoch
        newer.run()
        with pytest.raises(Fenced, match=f"host-new announced cast {second}"):
            older.run()

    assert (world.manifest(first).state, world.manifest(second).state) == ("aborted", "sealed")


def test_a_stopped_caster_aborts_its_cast(world: Any) -> None:
    path = world.file(2 * MIB)
    with world.caster(path) as caster:
        epoch = caster.announce().epoch
        caster.stop("somebody pressed Ctrl-C")
        with pytest.raises(Unavailable, match="Ctrl-C"):
            caster.run()
    assert world.manifest(epoch).reason == "somebody pressed Ctrl-C"


def test_a_sealed_cast_can_be_aborted_by_its_caster(world: Any) -> None:
    path = world.file(1)
    caster = world.cast(path)
    caster.abort("the source is gone")
    manifest = world.manifest(caster.cast.epoch)
    assert (manifest.state, manifest.reason) == ("aborted", "the source is gone")


def test_chunks_that_nobody_can_handle_are_refused_before_an_epoch_is_issued(world: Any) -> None:
    path = world.file(1)
    for chunk_bytes in (0, 1, MIB + 1, 256 * MIB, 2**31):
        with pytest.raises(BadSettings, match="no power of two"), world.caster(path, chunk_bytes=chunk_bytes):
            pass
    assert world.row(world.cast(path).cast.epoch).state == "sealed"
    assert len(world.rows()) == 1


STEPS = ["issue", "announce_on_log", "hash", "prove", "decide", "seal", "note"]


@pytest.mark.parametrize("step", STEPS)
def test_a_publisher_that_dies_after_a_step_leaves_nothing_that_its_restart_does_not_end(
    world: Any, step: str, child: Callable[..., int]
) -> None:
    path = world.file(2 * MIB)
    assert child(world, path, step) == -signal.SIGKILL
    (old,) = world.rows()
    sealed = step in ("decide", "seal", "note")
    assert (old.state, old.told) == ("sealed" if sealed else "announced", step == "note")

    new = world.cast(path).cast
    assert world.manifest(new.epoch).state == "sealed"
    assert world.row(new.epoch).lives
    old = world.row(old.epoch)
    assert (old.state, old.told, old.lives) == ("sealed" if sealed else "aborted", True, False)
    if step != "issue":  # of which no peer ever heard
        assert world.manifest(old.epoch).state == old.state


_CHILD = """
import os, pickle, signal, sys
from pathlib import Path
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka.client import Kafka
from headwater.producers.caster.caster import Caster
from headwater.producers.caster.source import Source

given = pickle.load(sys.stdin.buffer)
original = getattr(Caster, given["step"])

def dying(self, *arguments):
    original(self, *arguments)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(Caster, given["step"], dying)
with Source(Path(given["path"])) as source, Catalog(CatalogConfig(given["dsn"])) as catalog:
    caster = Caster(given["config"], Kafka(given["kafka"]), catalog, source, given["order"])
    caster.announce()
    caster.run()
"""


@pytest.fixture
def child() -> Callable[..., int]:
    def run(world: Any, path: Path, step: str) -> int:
        import pickle

        given = {
            "step": step,
            "path": str(path),
            "dsn": world.dsn,
            "kafka": world.kafka.config,
            "config": world.config,
            "order": world.order,
        }
        return subprocess.run(
            [sys.executable, "-c", _CHILD], input=pickle.dumps(given), timeout=60, check=False
        ).returncode

    return run


class OwnBroker:
    """A broker that may be killed, and comes back with its log."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.place = Place(folder, Ports.free(), Secrets.of(folder))
        self.server = Broker()
        self.server.prepare(silent)

    def start(self) -> None:
        self.server.start(self.place, self.place.addresses())
        wait_until_it_answers(self.server, self.place, self.place.addresses().kafka)

    def kill(self) -> None:
        processes.stop("kafka", self.place.home, polite=signal.SIGKILL)


@pytest.fixture
def broker(stack: object, tmp_path: Path) -> Iterator[OwnBroker]:  # noqa: ARG001  # its programs are fetched
    broker = OwnBroker(tmp_path / "broker")
    broker.start()
    yield broker
    broker.kill()


def test_a_broker_that_is_away_while_hashing_is_waited_for(
    make_world: Callable[[Kafka], Any], broker: OwnBroker, eventually: Callable[..., Any]
) -> None:
    kafka = Kafka(KafkaConfig(broker.place.addresses().kafka))
    apply(kafka, (CAST_MANIFESTS,))
    world = make_world(kafka)
    path = world.file(4 * MIB)
    roots: list[bytes] = []
    with world.caster(path) as caster:
        caster.announce()
        broker.kill()
        working = Thread(target=lambda: roots.append(caster.run()))
        working.start()
        eventually(lambda: "no broker" in caster.waits, 30)
        assert len(caster.hashes) == 4 * 32, "it hashes on"
        broker.start()
        working.join(60)
    assert caster.waits == ""
    assert world.manifest(caster.cast.epoch).root == roots[0]
