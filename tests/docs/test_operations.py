"""What docs/operations.md tells people to write into files and databases works as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException

from headwater.connectors.catalog import casts, sources, versions
from headwater.connectors.catalog.client import Catalog, Transaction
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.jobs import grants
from headwater.connectors.jobs.results import EndOutcome
from headwater.observe import job_metrics
from headwater.rules.errors import Fenced
from headwater.rules.jobs.failures import Kind, kind_of
from headwater.settings import Settings, load
from tests.any_job import any_place

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)


def load_example(text: str, folder: Path) -> Settings:
    """A settings file of the page, with files of secrets."""
    for secret in re.findall(r'_file"? = "/etc/headwater/([^"]+)"', text):
        (folder / secret).write_text(
            "postgresql://db/headwater" if secret.endswith(".dsn") else "s3cr3t-0f-mine-s3cr3t\n"
        )
    file = folder / "headwater.toml"
    file.write_text(text.replace("/etc/headwater/", f"{folder}/"))
    return load(file=file, environment={}, folder=folder)


def test_the_settings_file_loads_and_means_what_the_page_says(tmp_path: Path) -> None:
    settings = load_example(blocks("toml")[0], tmp_path)

    kafka = settings.needed_kafka()
    assert kafka.replication == 3
    assert kafka.client["security.protocol"] == "SASL_SSL"
    assert kafka.client["sasl.password"] == "s3cr3t-0f-mine-s3cr3t"
    assert settings.needed_catalog().dsn == "postgresql://db/headwater"
    assert settings.needed_s3().secret_access_key == "s3cr3t-0f-mine-s3cr3t"
    assert settings.needed_lakefs().secret_access_key == "s3cr3t-0f-mine-s3cr3t"
    assert settings.sources.keys() == {"photos", "films"}
    assert "s3cr3t" not in repr(settings)


def test_the_settings_file_of_a_fleets_host_names_no_server_but_kafka(tmp_path: Path) -> None:
    settings = load_example(blocks("toml")[1], tmp_path)

    assert (settings.catalog, settings.s3, settings.lakefs) == (None, None, None)
    assert settings.needed_kafka().client["sasl.password"] == "s3cr3t-0f-mine-s3cr3t"
    assert (settings.peer.key, settings.peer.into) == ("s3cr3t-0f-mine-s3cr3t", Path("/srv/casts"))
    assert (settings.peer.port, settings.peer.pinned) == (9500, ("llama-base",))
    assert "s3cr3t" not in repr(settings)


def test_the_settings_file_of_the_service_of_jobs_means_what_the_page_says(tmp_path: Path) -> None:
    settings = load_example(blocks("toml")[2], tmp_path)

    assert settings.needed_jobs().dsn == "postgresql://db/headwater"
    assert settings.needed_jobs().lease_seconds == 10
    assert (settings.api.port, settings.api.internal_host) == (18080, "10.1.0.5")
    assert settings.worker.key == "s3cr3t-0f-mine-s3cr3t"
    assert settings.worker.endpoint == f"http://{settings.api.internal_host}:{settings.api.internal_port}"
    assert kind_of("license_expired", settings.failures) is Kind.permanent
    assert "s3cr3t" not in repr(settings)


def test_the_names_of_librdkafkas_settings_are_right() -> None:
    named = re.findall(r'"((?:ssl|sasl|security)\.[\w.]+)"', PAGE)
    assert len(named) > 6
    for name in named:
        # Without TLS the values are not looked at; a name that does not exist is refused.
        values = {"security.protocol": "PLAINTEXT", "sasl.mechanism": "PLAIN"}
        key = name.removesuffix("_file")
        Consumer({"group.id": "g", key: values.get(key, "x")}).close()
    with pytest.raises(KafkaException, match="No such configuration property"):
        Consumer({"group.id": "g", "ssl.ca.place": "x"})


def test_metrics_of_the_page_exist() -> None:
    known = {family.name for metric in job_metrics.ALL for family in metric.describe()}
    assert set(re.findall(r"\bheadwater_\w+", PAGE)) <= known


@pytest.fixture
def catalog(catalog_dsn: str) -> Iterator[Catalog]:
    with Catalog(CatalogConfig(catalog_dsn)) as catalog:
        catalog.migrate()
        yield catalog


def test_after_a_restore_old_owners_are_fenced_and_what_was_on_its_way_is_wanted_again(catalog: Catalog) -> None:
    index, at_work, safe = uuid4(), b"w" * 32, b"s" * 32
    owner = {"source": "films", "site": "lab", "root": b"/r", "dataset": "main", "agent": "a/1", "partitions": 6}
    with catalog.transaction() as transaction:
        before = sources.own(transaction, index_id=index, index_seq=900, **owner)  # type: ignore[arg-type]
        versions.take_over(transaction, "main", "main")
        for content, state in ((at_work, "stored"), (safe, "verified")):
            transaction.execute(
                "INSERT INTO objects (hash, generation, state, size, source, claim_topic, claim_partition, "
                "claim_epoch) VALUES (%s, 1, %s, 1, 'films', 't', 0, 1)",
                [content, state],
            )

        cast = announce_cast(transaction)

    with catalog.transaction() as transaction:
        apply(transaction, blocks("sql")[0])

    with pytest.raises(Fenced), catalog.transaction() as transaction:
        sources.heartbeat(transaction, before)
    with catalog.transaction() as transaction:
        after = sources.own(transaction, index_id=index, index_seq=900, **owner)  # type: ignore[arg-type]
        assert after.epoch > before.epoch + 1000, "the same index, at once, under an epoch that nobody ever had"
        assert sources.object_states(transaction, [at_work, safe]) == {safe: "verified"}
        assert versions.take_over(transaction, "main", "main").committer_epoch > 1000
        assert announce_cast(transaction).epoch > cast.epoch + 1000
        assert [one.epoch for one in casts.untold(transaction, "model", "h")] == [cast.epoch]


def test_after_a_restore_jobs_begin_anew_under_epochs_that_nobody_had(catalog_dsn: str) -> None:
    with any_place(catalog_dsn) as place:
        waiting, granted, running, cancelled, done = (place.submit() for _ in range(5))
        place.grant(granted)
        old = place.run(running)
        place.run(cancelled)
        place.cancel(cancelled)
        place.complete(*place.run(done))

        with place.jobs.transaction() as transaction:
            apply(transaction, blocks("sql")[1])

        assert {job: place.state(job) for job in (waiting, granted, running, cancelled, done)} == {
            waiting: "queued", granted: "queued", running: "queued", cancelled: "cancelled", done: "completed",
        }  # fmt: skip
        assert place.complete(*old) == [EndOutcome.lost]
        with pytest.raises(Fenced):
            place.grant(waiting)
        with place.jobs.transaction() as transaction:
            place.owner_epoch = grants.take_over(transaction, place.pool, "me")
        assert all(attempt.epoch > 1000 for attempt in place.run(waiting, granted, running))


def apply(transaction: Transaction, block: str) -> None:
    for statement in block.replace("BEGIN;", "").replace("COMMIT;", "").split(";"):
        if statement.strip():
            transaction.execute(statement.encode())


def announce_cast(transaction: Transaction) -> casts.Cast:
    return casts.announce(
        transaction, name="model", origin="h", file=b"/m", file_name="m", size=1, chunk_bytes=1 << 20, targets=(),
        expires_at=datetime.now(UTC) + timedelta(hours=1),
    )  # fmt: skip
