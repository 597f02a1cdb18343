"""A small world for the processors of sync: a source on disk, a catalog, a bucket behind a counter of requests.

Processors are plain classes, so most tests hand them batches. Those that kill one run it in a child process
(``World.run_child``), which builds the same processor on the same world and dies in the step that the test names.
"""

from __future__ import annotations

import os
import pickle
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from blake3 import blake3
from confluent_kafka import Message

from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.schemas.codec import encode
from headwater.schemas.records import ChangeKind, FileChange, FilePart, FileType, Guarantee, ObjectStored, Record
from headwater.schemas.topics import fs_changes, fs_parts
from headwater.streams.runtime.processor import Batch, Input, Output
from headwater.streams.upload.config import UploadConfig

SOURCE = "nas1"
SITE = "here"

_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (/[^ ]*) HTTP/1\.1\r\n")


class Passage:
    """A TCP pass-through in front of the S3 server that notes each request line."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.requests: list[tuple[str, str]] = []
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def sent(self, pattern: str) -> list[tuple[str, str]]:
        """The requests so far whose ``METHOD /path`` contains the pattern."""
        return [one for one in self.requests if re.search(pattern, f"{one[0]} {one[1]}")]

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        tail = b""
        with client, socket.create_connection(self._server) as server:
            while True:
                readable, _, _ = select.select([client, server], [], [])
                for one in readable:
                    try:
                        data = one.recv(1 << 18)
                        (server if one is client else client).sendall(data)
                    except OSError:
                        return
                    if not data:
                        return
                    if one is client:
                        seen = tail + data
                        for method, path in _REQUEST.findall(seen):
                            self.requests.append((method.decode(), path.decode()))
                        last = max((match.end() for match in _REQUEST.finditer(seen)), default=0)
                        tail = seen[max(last, len(seen) - 2048) :]


@dataclass
class World:
    """One source, its files on disk, and everything that a processor writes to."""

    root: Path
    dsn: str
    s3_url: str
    passage: Passage
    catalog: Catalog
    store: ObjectStore
    config: UploadConfig
    seq: int = 0
    offset: int = 0
    epoch: int = 1
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    # What an agent would have written

    def register(self, source: str = SOURCE, epoch: int = 1, root: Path | None = None) -> None:
        self.query(
            "INSERT INTO sources (source, site, root, dataset, epoch, index_id, agent, partitions)"
            " VALUES (%s, %s, %s, 'films', %s, gen_random_uuid(), 'test', 6)"
            " ON CONFLICT (source) DO UPDATE SET epoch = excluded.epoch",
            source,
            SITE,
            os.fsencode(root or self.root),
            epoch,
        )
        self.query("INSERT INTO datasets (dataset, repository) VALUES ('films', 'films') ON CONFLICT DO NOTHING")

    def write(self, path: bytes, data: bytes) -> bytes:
        """Put a file on disk as a whole; returns its hash."""
        place = os.path.join(os.fsencode(self.root), path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place + b".writing", "wb") as file:
            file.write(data)
        os.replace(place + b".writing", place)
        return blake3(data).digest()

    def change(self, path: bytes, kind: ChangeKind = ChangeKind.created, **fields: object) -> FileChange:
        """The next record about a path; of a regular file as it is on disk unless told otherwise."""
        self.seq += 1
        if kind in (ChangeKind.created, ChangeKind.modified, ChangeKind.renamed) and "hash" not in fields:
            place = os.path.join(os.fsencode(self.root), path)
            with open(place, "rb") as file:
                data = file.read()
            fields = {"hash": blake3(data).digest(), "size": len(data), "file_type": FileType.regular, **fields}
        given = {"source": SOURCE, "epoch": self.epoch, "seq": self.seq, "guarantee": Guarantee.strong, **fields}
        return FileChange(path=path, display=repr(path), kind=kind, **given)  # type: ignore[arg-type]

    def parts(self, path: bytes, part_bytes: int) -> list[FilePart]:
        """The records of a large file as it is on disk, in cuts of one size (the last may be shorter)."""
        self.seq += 1
        data = (self.root / os.fsdecode(path)).read_bytes()
        cuts = range(0, len(data), part_bytes)
        return [
            FilePart(
                source=SOURCE,
                path=path,
                display=repr(path),
                epoch=self.epoch,
                seq=self.seq,
                hash=blake3(data).digest(),
                size=len(data),
                index=number,
                count=len(cuts),
                offset=offset,
                length=len(data[offset : offset + part_bytes]),
                part_hash=blake3(data[offset : offset + part_bytes]).digest(),
            )
            for number, offset in enumerate(cuts)
        ]

    # Batches

    @staticmethod
    def input(topic: str, record: Record, offset: int, partition: int = 0) -> Input:
        return Input(topic, Message(partition=partition, offset=offset, key=record.key(), value=encode(record)))

    def batch(self, *records: Record, partition: int = 0, assignment: int = 1, current: bool = True) -> Batch:
        inputs = []
        for record in records:
            self.offset += 1
            topic = "sync.objects" if isinstance(record, ObjectStored) else "fs"
            inputs.append(self.input(topic, record, self.offset, partition))
        held = tuple((topic(SITE).name, number) for topic in (fs_changes, fs_parts) for number in range(6))
        return Batch(tuple(inputs), assignment, lambda: current, held)

    def run_child(self, build: str, records: Sequence[Record], *, die: str, when: str = "after", nth: int = 1) -> int:
        """Process one batch in a child that dies around a method (``Class.method``); returns its exit status (99)."""
        return self._child(build, records, die=die, when=when, nth=nth).wait(60)

    def _child(self, build: str, records: Sequence[Record], **death: object) -> subprocess.Popen[bytes]:
        order = {
            "dsn": self.dsn,
            "s3": self.s3_url,
            "build": build,
            "inputs": self.batch(*records).inputs,
            "held": self.batch().held,
            "config": self.config,
            **death,
        }
        child = subprocess.Popen([sys.executable, "-c", _CHILD], stdin=subprocess.PIPE)
        self.children.append(child)
        assert child.stdin is not None
        child.stdin.write(pickle.dumps(order))
        child.stdin.close()
        return child

    # What came of it

    def query(self, text: str, *values: object) -> list[tuple[object, ...]]:
        with self.catalog.transaction() as transaction:
            cursor = transaction.execute(text, values)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def objects(self) -> list[tuple[object, ...]]:
        """(generation, state) of every object, oldest first."""
        return self.query("SELECT generation, state FROM objects ORDER BY hash, generation")

    def state(self, content: bytes) -> str | None:
        """State of the newest generation of a content."""
        rows = self.query("SELECT state FROM objects WHERE hash = %s ORDER BY generation DESC LIMIT 1", content)
        return str(rows[0][0]) if rows else None

    def counters(self) -> dict[str, int]:
        rows = self.query("SELECT name, sum(value)::bigint FROM counters GROUP BY name HAVING sum(value) <> 0")
        return {str(name): int(value) for name, value in rows}  # type: ignore[call-overload]


_CHILD = """
import os, pickle, sys
order = pickle.load(sys.stdin.buffer)
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.streams.runtime.processor import Batch
from headwater.streams.upload.files_lane import FilesLane
from headwater.streams.upload.multipart_uploads import MultipartUploads
from headwater.streams.upload.orphans import Orphans
from headwater.streams.upload.parts_lane import PartsLane
from headwater.streams.verify.config import VerifyConfig
from headwater.streams.verify.verifier import Verifier

catalog = Catalog(CatalogConfig(order["dsn"]))
store = ObjectStore(S3Config.from_url(order["s3"]))
config = order["config"]
owner, method = order["die"].split(".")
kind = globals()[owner]
original = getattr(kind, method)
calls = 0

def dying(self, *arguments, **named):
    global calls
    calls += 1
    if calls == order["nth"] and order["when"] == "before":
        os._exit(99)
    result = original(self, *arguments, **named)
    if calls == order["nth"]:
        os._exit(99)
    return result

setattr(kind, method, dying)
processor = eval(order["build"])
processor.process(Batch(order["inputs"], 1, lambda: True, order["held"]))
os._exit(0)
"""


def records_of(outputs: Sequence[Output]) -> list[Record]:
    return [one.record for one in outputs]


@pytest.fixture
def passage(stack: object) -> Iterator[Passage]:
    address = urlsplit(stack.s3)  # type: ignore[attr-defined]
    assert address.hostname is not None
    assert address.port is not None
    passage = Passage((address.hostname, address.port))
    yield passage
    passage.close()


@pytest.fixture
def world(tmp_path: Path, catalog_dsn: str, bucket: str, passage: Passage) -> Iterator[World]:
    root = tmp_path / "root"
    root.mkdir()
    address = urlsplit(bucket)
    user = address.netloc.rpartition("@")[0]
    through = urlunsplit(address._replace(netloc=f"{user}@127.0.0.1:{passage.port}"))
    catalog = Catalog(CatalogConfig(catalog_dsn))
    catalog.migrate()
    store = ObjectStore(S3Config.from_url(through))
    world = World(root, catalog_dsn, through, passage, catalog, store, UploadConfig(site=SITE))
    world.register()
    yield world
    for child in world.children:
        if child.poll() is None:
            child.kill()
            child.wait()
    catalog.close()
