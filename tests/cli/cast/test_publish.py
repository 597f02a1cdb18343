"""`headwater cast publish` with real peers: the file reaches them whole, or never."""

import hashlib
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from threading import Thread

import pytest

from headwater.connectors.catalog import casts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka import topics
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.peer.peer import Peer
from headwater.producers.caster.caster import Caster
from headwater.producers.caster.config import CasterConfig
from headwater.producers.caster.copy import Copy
from headwater.producers.caster.order import Order
from headwater.producers.caster.source import Source
from headwater.schemas.topics import catalogue

pytestmark = pytest.mark.stack

KEY = "0123456789abcdef0123456789abcdef"


class Fleet:
    """Peers a and b in racks r1 and r2, in this process; the publisher is the real command."""

    def __init__(self, kafka, catalog: Catalog, folder) -> None:
        self.kafka, self.catalog, self.folder = kafka, catalog, folder
        self.source = folder / "model.bin"
        self.closing = ExitStack()

    def write(self, size: int) -> str:
        content = b"".join(number.to_bytes(8, "little") for number in range(-(-size // 8)))[:size]
        self.source.write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    def join(self, host: str, rack: str, name: str = "model") -> Peer:
        config = PeerConfig(key=KEY, host=host, rack=rack, listen="127.0.0.1", advertised="127.0.0.1")
        return self.closing.enter_context(Peer(config, self.kafka, into=self.folder / host, only=name))

    def sha256(self, host: str, name: str = "model.bin") -> str | None:
        path = self.folder / host / name
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None

    def newest(self) -> casts.Cast:
        with self.catalog.transaction() as transaction:
            return casts.of_name(transaction, "model")[0]


@pytest.fixture
def fleet(on_stack, catalog_dsn, environment, tmp_path):
    environment |= {"HEADWATER_PEER__KEY": KEY, "HEADWATER_PEER__HOST": "origin", "HEADWATER_PEER__LISTEN": "127.0.0.1"}
    environment |= {"HEADWATER_PEER__ADVERTISED": "127.0.0.1"}
    topics.apply(on_stack, catalogue(("lab",)))
    for host in ("a", "b"):
        (tmp_path / host).mkdir()
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        fleet = Fleet(on_stack, catalog, tmp_path)
        with fleet.closing:
            yield fleet


def publish(command, fleet, *more: str, **environment: str):
    return command("cast", "publish", str(fleet.source), "--name", "model", *more, "--json", **environment)


@pytest.mark.parametrize("size", [0, 1, 5 * 1024 * 1024 + 17])
def test_a_file_reaches_every_target_whole_and_the_command_says_so(command, fleet, size):
    expected = fleet.write(size)
    fleet.join("a", "r1")
    fleet.join("b", "r2")

    ended = publish(command, fleet, "--targets", "a,b", "--chunk", "1MiB", "--as", "weights.bin")
    assert (ended.code, ended.json["ending"], ended.json["installed"]) == (0, "complete", ["a", "b"]), ended.err
    assert (fleet.sha256("a", "weights.bin"), fleet.sha256("b", "weights.bin")) == (expected, expected)
    assert ended.json["root"] == fleet.newest().root.hex()


def test_a_host_gets_the_file_from_the_copy_though_no_origin_is_there(command, fleet, bucket, eventually):
    """And the copy goes when a newer cast of the name is whole."""
    expected = fleet.write(3 * 1024 * 1024)
    store, config = ObjectStore(S3Config.from_url(bucket)), CasterConfig()
    order = Order(name="model", file_name="model.bin", targets=(), origin="gone", expires_seconds=3600)
    with Source(fleet.source) as source:
        caster = Caster(config, fleet.kafka, fleet.catalog, source, order)
        cast = caster.announce()
        caster.run()
        Copy(config, fleet.kafka, fleet.catalog, store, source, cast, caster.hashes).run()

    fleet.join("a", "r1")
    eventually(lambda: fleet.sha256("a") == expected, 60)
    assert publish(command, fleet, "--targets", "who-never-comes", "--expires", "1s").code == 3
    assert store.head(f"casts/{cast.epoch}") is None


def test_a_source_that_changes_while_it_is_served_aborts_the_cast(command, fleet, eventually):
    expected = fleet.write(1024 * 1024)
    fleet.join("a", "r1")
    ended = []
    working = Thread(target=lambda: ended.append(publish(command, fleet, "--targets", "a,who-never-comes")))
    working.start()
    eventually(lambda: fleet.sha256("a") == expected, 60)
    with fleet.source.open("ab") as file:
        file.write(b"more")
    working.join(60)

    assert ended[0].code == 65
    assert "the source changed while it was served: it grew" in ended[0].err
    assert fleet.newest().state == "aborted"
    assert fleet.sha256("a") == expected, "who has it keeps it"


def test_it_expires_and_names_those_who_lack_it(command, fleet):
    fleet.write(1)
    ended = publish(command, fleet, "--targets", "who-never-comes", "--expires", "1s")
    assert (ended.code, ended.json["ending"], ended.json["missing"]) == (3, "expired", ["who-never-comes"])


def test_nobody_has_it_is_no_success(command, fleet):
    fleet.write(1)
    assert publish(command, fleet, "--expires", "1s").code == 3


def test_interrupted_it_says_what_goes_on(fleet, environment, eventually):
    fleet.write(1)
    given = {"HEADWATER_STATE_FOLDER": str(fleet.folder / "state"), "HEADWATER_SITE": "lab", **environment}
    arguments = ["cast", "publish", str(fleet.source), "--name", "model", "--targets", "who-never-comes"]
    child = subprocess.Popen(
        [sys.executable, "-m", "headwater.cli", *arguments],
        env=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        eventually(lambda: sealed(fleet), 60)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    said = out.decode()
    assert child.returncode == 130
    assert "goes on without this origin" in said
    assert "These lack it: who-never-comes." in said
    assert fleet.newest().state == "sealed"


def sealed(fleet) -> bool:
    with fleet.catalog.transaction() as transaction:
        return transaction.execute("SELECT 1 FROM casts WHERE state = 'sealed' AND told").fetchone() is not None


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda path: path.unlink(), 66, "no such file"),
        (lambda path: (path.unlink(), path.mkdir()), 78, "it is a directory"),
        (lambda path: (path.unlink(), os.mkfifo(path)), 78, "it is a pipe"),
    ],
)
def test_what_is_no_file_is_refused_before_anything_is_said(command, fleet, change, code, said):
    fleet.write(1)
    change(fleet.source)
    ended = publish(command, fleet)
    assert (ended.code, said in ended.err) == (code, True)
    with fleet.catalog.transaction() as transaction:
        assert casts.all_casts(transaction, 10) == []


def test_a_name_that_is_no_text_needs_another_for_peers(command, fleet):
    fleet.write(1)
    odd = fleet.folder / os.fsdecode(b"model \xff\n.bin")
    fleet.source.rename(odd)
    fleet.source = odd

    refused = publish(command, fleet)
    assert refused.code == 78
    assert "--as" in refused.err
    assert publish(command, fleet, "--as", "model.bin", "--expires", "1s").code == 3
    assert fleet.newest().file == os.fsencode(odd)


def test_without_a_key_the_cast_is_aborted(command, fleet, environment):
    fleet.write(1)
    del environment["HEADWATER_PEER__KEY"]
    ended = publish(command, fleet)
    assert ended.code == 78
    assert "peer.key" in ended.err
    assert fleet.newest().state == "aborted"
