"""Freezing a version in SQL against the pure rule: random histories, committed at random moments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.connectors.catalog import files, versions
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.catalog.freeze import freeze
from headwater.rules.cut import Place, State, newest_consistent
from headwater.rules.identity import Clock, content_hash
from headwater.schemas.manifest import Change
from headwater.schemas.records import ChangeKind, FileChange, FileType
from headwater.stack.postgres import create_database, database_address

_names = count()


@pytest.fixture(scope="module")
def catalog(request: pytest.FixtureRequest) -> Iterator[Catalog]:
    stack = request.getfixturevalue("stack")
    name = f"t{uuid4().hex[:12]}"
    create_database(stack.postgres, name)
    made = Catalog(CatalogConfig(database_address(stack.postgres, name)))
    made.migrate()
    yield made
    made.close()


@dataclass
class Model:
    """What was recorded and committed of one source, kept in plain dictionaries."""

    catalog: Catalog
    name: str
    seq: int = 0
    content: dict[bytes, bytes] = field(default_factory=dict)
    verified: set[bytes] = field(default_factory=set)
    states: dict[bytes, list[tuple[int, bytes | None, bytes | None]]] = field(default_factory=dict)
    committed: dict[bytes, int] = field(default_factory=dict)
    tree: dict[bytes, bytes] = field(default_factory=dict)

    def write(self, path: bytes, verified: bool) -> None:
        self.seq += 1
        content = content_hash(f"{self.name} {self.seq}".encode())
        self.content[path] = content
        self.note(path, content, None)
        self.object(content, verified)
        self.record(path, ChangeKind.modified, hash=content, size=1, file_type=FileType.regular)

    def delete(self, path: bytes) -> None:
        if self.content.pop(path, None) is not None:
            self.seq += 1
            self.note(path, None, None)
            self.record(path, ChangeKind.deleted)

    def rename(self, old: bytes, new: bytes) -> None:
        if old != new and old in self.content:
            self.seq += 1
            content = self.content[new] = self.content.pop(old)
            self.note(new, content, old)
            self.note(old, None, new)
            self.record(new, ChangeKind.renamed, hash=content, size=1, file_type=FileType.regular, from_path=old)

    def verify_all(self) -> None:
        for states in self.states.values():
            for _, content, _ in states:
                if content is not None:
                    self.object(content, True)

    def note(self, path: bytes, content: bytes | None, other: bytes | None) -> None:
        self.states.setdefault(path, []).append((self.seq, content, other))

    def object(self, content: bytes, verified: bool) -> None:
        if verified:
            self.verified.add(content)
        with self.catalog.transaction() as transaction:
            transaction.execute(
                "INSERT INTO objects (hash, generation, state, size, source, claim_topic, claim_partition, "
                "claim_epoch) VALUES (%s, 1, %s, 1, %s, 't', 0, 1) "
                "ON CONFLICT (hash, generation) DO UPDATE SET state = excluded.state",
                [content, "verified" if verified else "stored", self.name],
            )

    def record(self, path: bytes, kind: ChangeKind, **described: object) -> None:
        change = FileChange(
            source=self.name,
            path=path,
            display="",
            epoch=1,
            seq=self.seq,
            kind=kind,
            **described,  # type: ignore[arg-type]
        )
        with self.catalog.transaction() as transaction:
            files.add_states(transaction, files.states_of(change))
            files.move_heads(transaction, files.states_of(change))

    def expected(self) -> dict[bytes, bytes]:
        """The tree after the next version, by the pure rule."""
        pending: dict[Place, list[State]] = {}
        for path, states in self.states.items():
            for seq, content, other in states:
                if seq > self.committed.get(path, 0):
                    is_verified = content is None or content in self.verified
                    half = (self.name, other) if other is not None else None
                    pending.setdefault((self.name, path), []).append(State(Clock(1, seq), is_verified, half))
        tree = dict(self.tree)
        for (_, path), clock in newest_consistent(pending).items():
            self.committed[path] = clock.seq
            content = next(content for seq, content, _ in self.states[path] if seq == clock.seq)
            tree.pop(path, None)
            if content is not None:
                tree[path] = content
        return tree

    def commit(self) -> None:
        """Freeze and publish, and compare with the model."""
        expected = self.expected()
        with self.catalog.transaction() as transaction:
            taken = versions.take_over(transaction, self.name, self.name)
        with self.catalog.transaction() as transaction:
            intent = freeze(transaction, self.name, taken.committer_epoch)
        if intent is not None:
            with self.catalog.transaction() as transaction:
                for row in versions.changes(transaction, self.name, intent.version):
                    is_there = row.path in self.tree
                    assert (row.change is Change.added) == (not is_there)
                    if row.change is Change.removed:
                        assert row.hash == self.tree.pop(row.path)
                    else:
                        assert row.hash is not None
                        self.tree[row.path] = row.hash
                versions.publish(transaction, intent, f"commit {intent.version}")
            assert intent.files == len(self.tree)
            assert intent.content_bytes == len(self.tree)
        assert self.tree == expected
        assert self.committed == self.committed_in_catalog()

    def committed_in_catalog(self) -> dict[bytes, int]:
        with self.catalog.transaction() as transaction:
            rows = transaction.execute(
                "SELECT path, committed_seq FROM paths WHERE source = %s AND committed_seq > 0", [self.name]
            )
            return dict(rows.fetchall())


path = st.sampled_from([b"a", b"b", b"c", b"d\xff"])
events = st.lists(
    st.tuples(st.just("write"), path, st.booleans())
    | st.tuples(st.just("delete"), path)
    | st.tuples(st.just("rename"), path, path)
    | st.tuples(st.just("commit")),
    max_size=14,
)


@given(events)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_versions_take_what_the_rule_says(catalog: Catalog, events: list[tuple[object, ...]]) -> None:
    model = Model(catalog, f"d{next(_names)}")
    with catalog.transaction() as transaction:
        transaction.execute(
            "INSERT INTO sources (source, site, root, dataset, epoch, index_id, agent, partitions) "
            "VALUES (%s, 'here', '/nowhere', %s, 1, %s, 'test', 1)",
            [model.name, model.name, uuid4()],
        )
    for name, *arguments in events:
        getattr(model, str(name))(*arguments)
    model.commit()
    model.verify_all()
    model.commit()

    assert model.tree == model.content
