"""`headwater cast list | limit | abort | rm` against casts that a caster made."""

from pathlib import Path

import pytest

from headwater.connectors.catalog import casts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.config import CatalogConfig
from headwater.connectors.kafka import topics
from headwater.connectors.kafka.browse import Start, browse
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.producers.caster.caster import Caster
from headwater.producers.caster.config import CasterConfig
from headwater.producers.caster.copy import Copy
from headwater.producers.caster.order import Order
from headwater.producers.caster.source import Source
from headwater.schemas.topics import CAST_MANIFESTS

pytestmark = pytest.mark.stack


class Casting:
    def __init__(self, kafka, dsn: str, bucket: str, folder: Path) -> None:
        self.kafka = kafka
        self.catalog = Catalog(CatalogConfig(dsn))
        self.catalog.migrate()
        self.store = ObjectStore(S3Config.from_url(bucket))
        self.path = folder / "model.bin"
        self.path.write_bytes(b"weights")

    def cast(self, name: str, *, copied: bool = False, expires_seconds: float = 3600) -> int:
        order = Order(
            name=name, file_name="model.bin", targets=("rack:r1",), origin="h", expires_seconds=expires_seconds
        )
        with Source(self.path) as source:
            caster = Caster(CasterConfig(), self.kafka, self.catalog, source, order)
            caster.announce()
            caster.run()
            if copied:
                config = CasterConfig()
                Copy(config, self.kafka, self.catalog, self.store, source, caster.cast, caster.hashes).run()
        return caster.cast.epoch

    def said(self, epoch: int):
        seen = browse(self.kafka, CAST_MANIFESTS.name, Start("beginning"))
        return [one.record for one in seen if one.record.epoch == epoch]


@pytest.fixture
def casting(on_stack, catalog_dsn, bucket, tmp_path):
    topics.apply(on_stack, (CAST_MANIFESTS,))
    casting = Casting(on_stack, catalog_dsn, bucket, tmp_path)
    yield casting
    casting.catalog.close()


def test_list_shows_what_lives_from_the_catalog_or_from_the_log(casting, command):
    casting.cast("model")
    newer, other = casting.cast("model"), casting.cast("other")
    command("cast", "abort", "other", "--reason", "wrong file")

    listed = command("cast", "list", "--json").json
    assert [(one["epoch"], one["state"], one["origin"], one["targets"]) for one in listed] == [
        (newer, "sealed", "h", ["rack:r1"])
    ]
    everything = command("cast", "list", "--all", "--json").json
    assert [one["state"] for one in everything] == ["aborted", "sealed", "replaced"]
    assert everything[0]["epoch"] == other

    from_log = command("cast", "list", "--all", "--json", HEADWATER_POSTGRES="postgresql://nobody@127.0.0.1:9/x")
    assert "Told from the log" in from_log.err
    told = ("name", "epoch", "state", "lives", "origin", "targets", "root", "size", "file_name")
    assert [[one[name] for name in told] for one in from_log.json] == [
        [one[name] for name in told] for one in everything
    ]


def test_list_for_people(casting, command):
    assert command("cast", "list").out == "No cast lives: --all shows those that ended.\n"
    casting.cast("model")
    command("cast", "abort", "model", "--reason", "wrong file")
    shown = command("cast", "list", "--all").out
    assert "aborted" in shown
    assert "wrong file" in shown


def test_abort_ends_the_newest_cast_and_drops_its_copy(casting, command):
    epoch = casting.cast("model", copied=True)
    assert casting.store.head(f"casts/{epoch}") is not None

    ended = command("cast", "abort", "model", "--reason", "wrong file", "--json")
    assert ended.json == {"name": "model", "epoch": epoch, "state": "aborted", "reason": "wrong file"}
    assert (casting.said(epoch)[-1].kind, casting.said(epoch)[-1].reason) == ("aborted", "wrong file")
    assert casting.store.head(f"casts/{epoch}") is None

    again = command("cast", "abort", "model", "--reason", "twice")
    assert again.code == 77
    assert "aborted already: wrong file" in again.err


def test_rm_removes_every_cast_of_the_name_and_says_that_files_stay(casting, command):
    first, second, other = casting.cast("model", copied=True), casting.cast("model"), casting.cast("other")

    ended = command("cast", "rm", "model")
    assert ended.code == 0
    assert ended.out.startswith(f"Removed model {second}, model {first}")
    assert "Installed files stay." in ended.out
    assert [casting.said(epoch)[-1].kind for epoch in (first, second, other)] == ["removed", "removed", "sealed"]
    assert casting.store.head(f"casts/{first}") is None
    assert "Nothing was to remove" in command("cast", "rm", "model").out
    assert command("cast", "rm", "modle").code == 66


def test_rm_of_what_expired_leaves_what_lives(casting, command):
    over, lives = casting.cast("over", copied=True), casting.cast("lives", copied=True)
    with casting.catalog.transaction() as transaction:
        transaction.execute("UPDATE casts SET expires_at = now() WHERE epoch = %s", [over])

    assert command("cast", "rm", "--expired", "--json").json == {
        "removed": [{"name": "over", "epoch": over}], "copies": 1,
    }  # fmt: skip
    assert [casting.store.head(f"casts/{epoch}") is None for epoch in (over, lives)] == [True, False]
    with casting.catalog.transaction() as transaction:
        assert [casts.by_epoch(transaction, epoch).state for epoch in (over, lives)] == ["removed", "sealed"]


def test_limit_says_on_the_log_what_was_typed(casting, command):
    epoch = casting.cast("model")

    assert command("cast", "limit", "model", "--rate", "4Gbps").code == 0
    assert command("cast", "limit", "model", "--rate", "500MB/s", "--rack", "r1").code == 0
    assert command("cast", "limit", "model", "--off", "--host", "a", "--json").json["bytes_per_second"] is None
    said = [(one.bytes_per_second, one.host, one.rack) for one in casting.said(epoch) if one.kind == "limited"]
    assert said == [(500_000_000, None, None), (500_000_000, None, "r1"), (None, "a", None)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("limit", "model"),
        ("limit", "model", "--rate", "1GB/s", "--off"),
        ("limit", "model", "--rate", "1GB/s", "--host", "a", "--rack", "r"),
        ("rm",),
        ("rm", "model", "--expired"),
    ],
)
def test_what_contradicts_itself_is_refused(command, arguments):
    ended = command("cast", *arguments)

    assert ended.code == 78
    assert "Nothing was changed." in " ".join(ended.err.split())
