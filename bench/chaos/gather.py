"""Evidence from the real servers and folder, by plain clients: psycopg, confluent-kafka, boto3, HTTP, pyarrow.

What cannot change is read once: commits of lakeFS, manifests, and objects as long as S3 says that they did not change.
"""

from __future__ import annotations

import io
import os
import stat
from base64 import b64encode
from collections.abc import Iterator
from json import load
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import psycopg
import pyarrow.parquet as pq
from blake3 import blake3
from whole_log import records

from chaos.evidence import Delta, Evidence, Held, OnDisk, Shown, Version
from chaos.journal import Journal, Path, State
from chaos.members import DATASET, PREFIX, SOURCE
from chaos.traffic import Traffic
from headwater.schemas.records import DatasetVersion, DeadLetter, FileChange, Record
from headwater.stack.addresses import Addresses
from headwater.stack.s3 import client

WATCH = """
CREATE TABLE IF NOT EXISTS chaos_shown (
    at timestamptz NOT NULL DEFAULT clock_timestamp(), hash bytea, generation int, part int, finished boolean
);
CREATE OR REPLACE FUNCTION chaos_object() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos_shown (hash, generation, part, finished)
        VALUES (NEW.hash, NEW.generation, NULL, NEW.state IN ('stored', 'verified'));
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION chaos_part() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos_shown (hash, generation, part, finished)
        VALUES (NEW.hash, NEW.generation, NEW.index + 1, NEW.etag IS NOT NULL);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER chaos_object AFTER INSERT OR UPDATE OF state ON objects
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos_object();
CREATE CONSTRAINT TRIGGER chaos_part AFTER INSERT OR UPDATE OF etag ON object_parts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos_part();
"""
"""The catalog does not keep when it came to show something as finished: triggers write it down as each commits."""

_CATALOG = """
SELECT c.version, c.path, c.change, c.hash, c.generation, c.link_target, c.epoch, c.seq, c.mtime_ns, c.mode
FROM version_changes c JOIN versions v USING (dataset, version)
WHERE dataset = %s AND source = %s AND v.state = 'published' ORDER BY version, path
"""


class Gatherer:
    """Its ``addresses`` lead around the proxies; Kafka is reached as its clients are told to."""

    def __init__(self, root: Path, addresses: Addresses, kafka: str, traffic: Traffic, journal: Journal) -> None:
        self._root = root
        self.addresses = addresses
        self.kafka = kafka
        self._traffic = traffic
        self._journal = journal
        self.s3 = client(addresses.s3)
        self.bucket = urlsplit(addresses.s3).path.strip("/")
        self._listings: dict[str, dict[str, str]] = {}
        self._manifests: dict[str, list[Delta]] = {}
        self._hashes: dict[tuple[str, str, str], bytes] = {}

    def watch(self) -> None:
        """From now on, note when the catalog shows what as finished."""
        with psycopg.connect(self.addresses.postgres) as connection:
            connection.execute(WATCH)

    def gather(self) -> Evidence:
        log = list(self.log())
        with psycopg.connect(self.addresses.postgres, row_factory=_row) as connection:
            return Evidence(
                source=dict(self.source()),
                journal={path: tuple(states) for path, states in self._journal.states.items()},
                versions=self._versions(connection),
                announced=[one for one in log if isinstance(one, DatasetVersion) and one.dataset == DATASET],
                commits=self._main(),
                objects=dict(self._objects()),
                verified=frozenset(
                    _key(row.hash, row.generation)
                    for row in connection.execute("SELECT hash, generation FROM objects WHERE state = 'verified'")
                ),
                changes=[one for one in log if isinstance(one, FileChange)],
                dead=[one for one in log if isinstance(one, DeadLetter)],
                requests=list(self._traffic.requests),
                shown=[
                    Shown(_key(row.hash, row.generation), row.part, row.at.timestamp(), row.finished)
                    for row in connection.execute("SELECT * FROM chaos_shown ORDER BY at")
                ],
            )

    def source(self) -> Iterator[tuple[Path, OnDisk]]:
        """Every file and link below the root, read now. Drafts that the filters exclude are not part of it."""
        for folder, folders, names in os.walk(self._root):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in [*names, *links]:
                full = os.path.join(folder, name)
                found = os.lstat(full)
                path = os.path.relpath(full, self._root)
                if stat.S_ISLNK(found.st_mode):
                    yield path, OnDisk(State(target=os.readlink(full)), found.st_mtime_ns, found.st_mode & 0o7777)
                elif not name.endswith((b".tmp", b".swp")):
                    with open(full, "rb") as file:
                        state = State(hash=blake3(file.read()).digest())
                    yield path, OnDisk(state, found.st_mtime_ns, found.st_mode & 0o7777)

    def log(self) -> Iterator[Record]:
        """Every record of every topic of ours."""
        return records(self.kafka, lambda topic: topic.startswith(PREFIX))

    def _versions(self, connection: psycopg.Connection[Any]) -> list[Version]:
        deltas: dict[int, list[Delta]] = {}
        for row in connection.execute(_CATALOG, [DATASET, SOURCE]):
            deltas.setdefault(row.version, []).append(_delta(row, None))
        return [
            Version(
                number=row.version,
                parent=row.parent,
                commit=row.commit_id,
                excepted=frozenset(bytes.fromhex(one["path"]) for cut in row.cut.values() for one in cut["exceptions"]),
                catalog=deltas.get(row.version, []),
                manifest=self._manifest(row.manifest_hash.hex()),
                listing=self._listing(row.commit_id),
            )
            for row in connection.execute(
                "SELECT * FROM versions WHERE dataset = %s AND state = 'published' ORDER BY version", [DATASET]
            )
        ]

    def _manifest(self, digits: str) -> list[Delta]:
        if digits not in self._manifests:
            key = f"manifests/{digits[:2]}/{digits}.parquet"
            data = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            rows = pq.read_table(io.BytesIO(data)).to_pylist() if blake3(data).hexdigest() == digits else []
            self._manifests[digits] = sorted(
                (_delta(SimpleNamespace(**row), row["place"]) for row in rows), key=lambda delta: delta.path
            )
        return self._manifests[digits]

    def _listing(self, commit: str) -> dict[str, str]:
        if commit not in self._listings:
            prefix = f"s3://{self.bucket}/"
            self._listings[commit] = {
                entry["path"]: entry["physical_address"].removeprefix(prefix)
                for entry in self._pages(f"refs/{commit}/objects/ls")
            }
        return self._listings[commit]

    def _main(self) -> list[tuple[str, str]]:
        """The commits of main that say which version they are; the repository's first one says nothing."""
        return [
            (commit["id"], commit["metadata"]["version"])
            for commit in self._pages("refs/main/commits")
            if "version" in (commit["metadata"] or {})
        ]

    def _pages(self, what: str) -> Iterator[dict[str, Any]]:
        parts, after = urlsplit(self.addresses.lakefs), ""
        token = b64encode(f"{parts.username}:{parts.password}".encode()).decode()
        while True:
            url = f"http://{parts.hostname}:{parts.port}/api/v1/repositories/{quote(DATASET)}/{what}"
            request = HttpRequest(f"{url}?{urlencode({'amount': 1000, 'after': after})}")
            request.add_header("Authorization", f"Basic {token}")
            with urlopen(request, timeout=30) as answer:
                page = load(answer)
            yield from page["results"]
            if not page["pagination"]["has_more"]:
                return
            after = page["pagination"]["next_offset"]

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix="objects/")
        for entry in (entry for page in pages for entry in page.get("Contents", ())):
            identity = (entry["Key"], entry["ETag"], str(entry["LastModified"]))
            if identity not in self._hashes:
                digest = blake3()
                for chunk in self.s3.get_object(Bucket=self.bucket, Key=entry["Key"])["Body"].iter_chunks(1 << 20):
                    digest.update(chunk)
                self._hashes[identity] = digest.digest()
            yield entry["Key"], self._hashes[identity]


def _row(cursor: psycopg.Cursor[Any]) -> Any:
    """psycopg's row factory: columns are attributes, as in a manifest's rows."""
    names = [column.name for column in cursor.description or ()]
    return lambda values: SimpleNamespace(**dict(zip(names, values, strict=True)))


def _delta(row: Any, place: str | None) -> Delta:
    held = None
    if row.change != "removed":
        state = State(hash=row.hash, target=row.link_target)
        held = Held(state, row.generation, (row.epoch, row.seq), row.mtime_ns, row.mode & 0o7777)
    return Delta(row.path, place, (row.epoch, row.seq), held)


def _key(content: bytes, generation: int) -> str:
    digits = content.hex()
    return f"objects/{digits[:2]}/{digits}.{generation}"
