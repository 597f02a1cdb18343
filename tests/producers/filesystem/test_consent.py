"""Deletes beyond what a day may have: none goes before a person consented, and all else goes on."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.connectors.catalog import halts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.halts import Halt
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.consent import Consent, shared_directory
from headwater.producers.filesystem.deletes import Deletes
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.index.files import KnownFile
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.recorder import Recorder
from headwater.producers.filesystem.root import Root
from headwater.producers.filesystem.tree import Attributes, Signature, Tree
from headwater.rules.errors import Refused
from headwater.schemas.records import ChangeKind, FileType

Eventually = Callable[..., Any]
CAP = {"delete_hold_seconds": 0.2, "deletes_unasked": 5, "deletes_share": 0.1}


def fill(root: Path) -> None:
    for folder in ("keep", "old"):
        (root / folder / "deep").mkdir(parents=True)
        for number in range(20):
            (root / folder / "deep" / f"{number}").write_bytes(f"{folder}{number}".encode())


def waiting(catalog: Catalog, source: str) -> Halt | None:
    with catalog.transaction() as transaction:
        return halts.waiting(transaction, source)


def consent(catalog: Catalog, source: str, shown: Halt) -> None:
    with catalog.transaction() as transaction:
        halts.consent(transaction, source, shown, "me@here", "it was old")


def deleted(cloud: Any) -> int:
    return sum(record.kind is ChangeKind.deleted for record in set(cloud.read().records))


def test_deletes_beyond_the_cap_wait_over_a_restart_while_all_else_goes_on_until_an_operator_consents(
    config: AgentConfig, follow: Any, cloud: Any, catalog: Catalog, source: str, eventually: Eventually
) -> None:
    fill(config.root)
    with follow(**CAP) as running:
        eventually(lambda: len(cloud.read().newest()) == 40 and running.status.pending == 0)
        shutil.rmtree(config.root / "old")
        eventually(lambda: running.status.deletes_halted)
        (config.root / "new").write_bytes(b"new")
        eventually(lambda: b"new" in cloud.read().newest())
        assert running.status.halted is None
        assert deleted(cloud) == 0
    with follow(**CAP) as running:
        eventually(lambda: running.status.deletes_halted and running.status.walked)
        halt = eventually(lambda: waiting(catalog, source))
        assert (halt.paths, halt.subtree, len(halt.examples)) == (20, b"old/deep", 5)
        assert all(path.startswith(b"old/deep/") for path in halt.examples)
        assert "headwater consent" in halt.reason
        assert deleted(cloud) == 0
        consent(catalog, source, halt)
        eventually(lambda: deleted(cloud) == 20)
        eventually(lambda: running.status.deletes_halted is None and waiting(catalog, source) is None)
        assert len(cloud.newest()) == 21
        # The consent was for those: the next accident halts again.
        shutil.rmtree(config.root / "keep")
        eventually(lambda: running.status.deletes_halted)
    assert deleted(cloud) == 20
    with catalog.transaction() as transaction:
        [row] = transaction.execute(
            "SELECT operator, reason, done, details->>'paths' FROM operator_actions WHERE subject = %s", [source]
        ).fetchall()
    assert row == ("me@here", "it was old", True, "20")


def test_what_comes_back_ends_the_halt_without_a_delete(
    config: AgentConfig, follow: Any, cloud: Any, catalog: Catalog, source: str, eventually: Eventually
) -> None:
    fill(config.root)
    with follow(**CAP) as running:
        eventually(lambda: len(cloud.read().newest()) == 40)
        (config.root / "old").rename(config.root.parent / "out")
        eventually(lambda: running.status.deletes_halted and waiting(catalog, source))
        (config.root.parent / "out").rename(config.root / "old")
        eventually(lambda: running.status.deletes_halted is None and waiting(catalog, source) is None)
    assert deleted(cloud) == 0


def test_few_deletes_ask_nobody(config: AgentConfig, follow: Any, cloud: Any, eventually: Eventually) -> None:
    fill(config.root)
    with follow(**CAP) as running:
        eventually(lambda: len(cloud.read().newest()) == 40)
        for number in range(5):
            (config.root / "old/deep" / f"{number}").unlink()
        eventually(lambda: deleted(cloud) == 5)
        (config.root / "old/deep/5").unlink()
        eventually(lambda: running.status.deletes_halted)
    assert deleted(cloud) == 5


def test_an_emptied_root_deletes_nothing_until_an_operator_consents(
    config: AgentConfig, follow: Any, cloud: Any, catalog: Catalog, source: str, eventually: Eventually
) -> None:
    fill(config.root)
    with follow(**CAP) as running:
        eventually(lambda: len(cloud.read().newest()) == 40)
        for folder in ("keep", "old"):
            shutil.move(config.root / folder, config.root.parent / f"gone-{folder}")
        eventually(lambda: running.status.halted)
        halt = eventually(lambda: waiting(catalog, source))
        assert (halt.paths, halt.subtree) == (40, b"")
        assert deleted(cloud) == 0
        consent(catalog, source, halt)
        eventually(lambda: deleted(cloud) == 40, within_seconds=20)
        eventually(lambda: running.status.halted is None and waiting(catalog, source) is None)


def test_a_vanished_root_deletes_nothing_and_asks_for_no_consent(
    config: AgentConfig, follow: Any, cloud: Any, catalog: Catalog, source: str, eventually: Eventually
) -> None:
    fill(config.root)
    with follow(**CAP) as running:
        eventually(lambda: len(cloud.read().newest()) == 40)
        config.root.rename(config.root.parent / "away")
        eventually(lambda: running.status.halted and "missing" in running.status.halted)
        assert waiting(catalog, source) is None
        (config.root.parent / "away").rename(config.root)
        eventually(lambda: running.status.halted is None)
    assert deleted(cloud) == 0


def test_a_consent_to_another_number_than_was_shown_is_refused(catalog: Catalog, source: str) -> None:
    with catalog.transaction() as transaction:
        transaction.execute(
            "INSERT INTO source_halts (source, reason, paths, subtree, examples) VALUES (%s, 'r', 7, '', '{}')",
            [source],
        )
    with pytest.raises(Refused, match="not the 6 paths"):
        consent(catalog, source, Halt("r", 6, b"", ()))
    halt = waiting(catalog, source)
    assert halt is not None
    assert halt.consented is None


def test_the_tally_counts_a_day_and_outlives_the_process(tmp_path: Path) -> None:
    hour = 3600.0
    index = Index(tmp_path, "s")
    with index.transaction():
        index.deletes.add(3, 100 * hour)
        index.deletes.add(4, 110 * hour)
        index.deletes.consent(9)
    index.close()
    index = Index(tmp_path, "s")
    assert index.deletes.consented == 9
    assert [index.deletes.within_a_day(at * hour) for at in (110, 123, 124, 134)] == [7, 7, 4, 0]
    index.close()


def test_many_deletes_take_bounded_memory(config: AgentConfig) -> None:
    """Case 15 with 20,000 instead of 500,000: what is held in memory does not depend on the number."""
    index, now = Index(config.state_folder, config.source), 1_000_000.0
    tree, mounts = Tree(config.root), Mounts(os.fsencode(config.root))
    recorder = Recorder(config, tree, index, lambda: now)
    owner: Any = None
    consent = Consent(config, owner, index, owner, Root(config.source, tree, mounts, index), lambda: now)
    deletes = Deletes(tree, mounts, index, owner, recorder, consent, lambda: now)
    known = KnownFile(
        b"", FileType.regular, Signature(1, 1, 1, 1, 1), Attributes(1, 0o644, 0, 0), b"h" * 32, 0, None, True, 1
    )
    with index.transaction():
        for number in range(20_000):
            index.files.put(replace(known, path=f"gone/{number}".encode()), None, sent_at=now)
        index.files.mark_all_missing(b"gone", now - 100)
    tracemalloc.start()
    with index.transaction():
        assert deletes.release(2_000, hold_seconds=60) == 0
        index.deletes.consent(20_000)
    consent._judge_at = 0.0
    released = 1
    while released:
        with index.transaction():
            released = deletes.release(2_000, hold_seconds=60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert index.outbox.count == 20_000
    assert index.files.count == 0
    assert peak < 8 * 1024 * 1024
    mounts.close()
    index.close()


@given(st.lists(st.lists(st.sampled_from([b"a", b"ab", b"b"]), max_size=4), min_size=1, max_size=6))
def test_the_first_and_last_directory_tell_what_all_share(split: list[list[bytes]]) -> None:
    paths = sorted(b"/".join(parts) for parts in split)
    shared = shared_directory(paths[0], paths[-1])
    parts = shared.split(b"/") if shared else []
    named = [path.split(b"/") if path else [] for path in paths]
    assert all(path[: len(parts)] == parts for path in named)
    longer = {tuple(path[: len(parts) + 1]) for path in named}
    assert len(longer) > 1 or any(len(path) == len(parts) for path in named)
