import io
import json
import struct
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.errors import BadRecord, NewerRecord
from headwater.schemas import codec, records

SCHEMAS = Path(codec.__file__).parent
WRITTEN = {record: json.loads((SCHEMAS / f"{record.schema_name}.avsc").read_text()) for record in codec.RECORDS}


PRIMITIVES = {
    "null": st.none(),
    "string": st.text(),
    "bytes": st.binary(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
}


def values(kind, named) -> st.SearchStrategy:
    """Every value that an Avro type may have, as the .avsc says it: the independent source of this test."""
    if isinstance(kind, list):
        return st.one_of([values(branch, named) for branch in kind])
    if isinstance(kind, dict):
        if "name" in kind:
            named[kind["name"].rpartition(".")[2]] = kind
        match kind["type"]:
            case "enum":
                return st.sampled_from(kind["symbols"])
            case "fixed":
                return st.binary(min_size=kind["size"], max_size=kind["size"])
            case "array":
                return st.lists(values(kind["items"], named), max_size=3)
            case "record":
                return st.fixed_dictionaries({f["name"]: values(f["type"], named) for f in kind["fields"]})
            case plain:
                return values(plain, named)
    if kind in PRIMITIVES:
        return PRIMITIVES[kind]
    return values(named[kind.rpartition(".")[2]], named)


def plain(value):
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


@pytest.mark.parametrize("record", codec.RECORDS, ids=lambda record: record.schema_name)
def test_every_record_round_trips_and_every_value_of_its_schema_has_a_record(record):
    schema = fastavro.parse_schema(WRITTEN[record])

    @given(values(WRITTEN[record], {}))
    def check(plain_value):
        value = struct.pack(">bI", 0, codec.newest(record.schema_name).id) + body(schema, plain_value)

        decoded = codec.decode(value)

        assert isinstance(decoded, record)
        assert plain(decoded) == plain_value
        assert codec.encode(decoded) == value
        assert hash(decoded) == hash(codec.decode(value))

    check()


def body(schema, value) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def test_the_fields_of_a_record_class_are_those_of_its_schema():
    for record in codec.RECORDS:
        assert [field.name for field in fields(record)] == [field["name"] for field in WRITTEN[record]["fields"]]


def test_every_schema_has_a_record_class():
    assert {record.schema_name for record in codec.RECORDS} == {file.stem for file in SCHEMAS.glob("*.avsc")}


STORED = records.ObjectStored(hash=b"h" * 32, generation=1, size=3, source="photos")


def test_a_value_starts_with_a_zero_byte_and_its_pinned_id():
    value = codec.encode(STORED)

    magic, schema_id = struct.unpack(">bI", value[:5])
    assert magic == 0
    assert (SCHEMAS / "history" / f"{schema_id:04}-object_stored.avsc").exists()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "0 bytes, too few"),
        (b"", "0 bytes, too few"),
        (b"\x00\x00", "2 bytes, too few"),
        (b'{"path": "a"}', "starts with byte 0x7b"),
        (struct.pack(">bI", 0, 999_999) + b"x", "names schema 999999, which no release"),
        (codec.encode(STORED)[:-1], "does not decode as schema 3"),
        (codec.encode(STORED)[:9], "does not decode as schema 3"),
        (codec.encode(STORED) + b"xy", "2 bytes follow the record"),
    ],
)
def test_what_is_not_one_of_our_records_is_refused_with_the_reason(value, reason):
    with pytest.raises(BadRecord, match=reason):
        codec.decode(value)


def test_the_next_schema_is_a_newer_releases_and_asks_for_an_upgrade():
    with pytest.raises(NewerRecord, match=r"a newer release of headwater wrote.*Upgrade this process"):
        codec.decode(struct.pack(">bI", 0, max(codec.history()) + 1) + b"x")


@given(st.binary())
def test_no_bytes_make_decode_fail_with_anything_but_bad_record(garbage):
    for schema_id in codec.history():
        try:
            codec.decode(struct.pack(">bI", 0, schema_id) + garbage)
        except BadRecord:
            continue


@pytest.mark.parametrize("field", [{"hash": b"short"}, {"size": 2**63}, {"source": 7}, {"generation": None}])
def test_a_field_that_does_not_fit_is_refused_before_anything_is_written(field):
    wrong = records.ObjectStored(**{**asdict(STORED), **field})

    with pytest.raises(BadRecord, match="ObjectStored does not fit schema 3"):
        codec.encode(wrong)


def test_the_kafka_key_orders_what_belongs_together():
    change = records.FileChange(
        source="photos", path=b"a/b\xff", display="a/b", epoch=1, seq=2, kind=records.ChangeKind.created
    )
    part = records.FilePart(
        source="photos", path=b"a", display="a", epoch=1, seq=2, hash=b"h" * 32, size=9, index=0, count=1, offset=0,
        length=9, part_hash=b"p" * 32,
    )  # fmt: skip
    dead = records.DeadLetter(
        topic="fs.changes.lab", partition=2, offset=7, group="upload-files", error="BadRecord", message="m", stack="s"
    )

    assert change.key() == b"photos\x00a/b\xff"
    assert part.key() == STORED.key() == b"h" * 32
    assert dead.key() == b"fs.changes.lab/2/7"
