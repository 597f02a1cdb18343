import json
import shutil
import subprocess
from pathlib import Path

import pytest

from headwater.schemas import compatibility

SCHEMAS = Path(compatibility.__file__).parent
BASE = {
    "type": "record",
    "name": "Thing",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "kind",
            "type": {"type": "enum", "name": "Kind", "symbols": ["unknown", "a"], "default": "unknown"},
        },
        {"name": "note", "type": "string", "default": ""},
    ],
}


def test_every_schema_we_ship_may_be_published():
    assert compatibility.problems(SCHEMAS) == []


def changed(edit) -> dict:
    schema = json.loads(json.dumps(BASE))
    edit(schema)
    return schema


def add_field_without_default(schema):
    schema["fields"].append({"name": "size", "type": "long"})


def drop_field_without_default(schema):
    del schema["fields"][0]


def rename_field(schema):
    schema["fields"][0]["name"] = "identity"


def narrow_type(schema):
    schema["fields"][0]["type"] = "int"


def widen_type(schema):
    schema["fields"][0]["type"] = "double"


def make_optional(schema):
    schema["fields"][2] = {"name": "note", "type": ["null", "string"], "default": None}


def rename_record(schema):
    schema["name"] = "Other"


@pytest.mark.parametrize(
    "edit",
    [
        add_field_without_default,
        drop_field_without_default,
        rename_field,
        narrow_type,
        widen_type,
        make_optional,
        rename_record,
    ],
)
def test_a_change_that_one_side_cannot_read_is_refused(folder, edit):
    publish(folder, changed(edit))

    found = compatibility.problems(folder)

    assert found
    assert all("cannot read what" in problem for problem in found)


def add_field_with_default(schema):
    schema["fields"].append({"name": "size", "type": "long", "default": 0})


def add_symbol(schema):
    schema["fields"][1]["type"]["symbols"].append("b")


def drop_field_with_default(schema):
    del schema["fields"][2]


@pytest.mark.parametrize("edit", [add_field_with_default, add_symbol, drop_field_with_default])
def test_a_change_that_both_sides_can_read_passes(folder, edit):
    publish(folder, changed(edit))

    assert compatibility.problems(folder) == []


def test_a_field_that_leaves_and_returns_as_another_type_is_refused(folder):
    """Each step alone is fine: only the comparison with all older schemas finds it."""
    publish(folder, changed(drop_field_with_default))
    publish(folder, changed(lambda schema: schema["fields"][2].update(type="long", default=0)))

    assert any("0003-thing.avsc cannot read what 0001-thing.avsc wrote" in p for p in compatibility.problems(folder))


def test_a_schema_edited_without_publishing_is_refused(folder):
    (folder / "thing.avsc").write_text(json.dumps(changed(add_field_with_default)))

    assert compatibility.problems(folder) == [
        "thing.avsc differs from 0001-thing.avsc: publish the change under the next id."
    ]


def test_a_published_schema_that_was_edited_is_refused(folder):
    published = folder / "history" / "0001-thing.avsc"
    published.write_text(published.read_text().replace("long", "int"))
    (folder / "thing.avsc").write_bytes(published.read_bytes())

    (problem,) = compatibility.problems(folder)

    assert problem.startswith("history/0001-thing.avsc was changed after it was published")


def test_a_published_schema_that_is_gone_is_refused(folder):
    (folder / "history" / "0001-thing.avsc").unlink()
    (folder / "thing.avsc").unlink()

    assert compatibility.problems(folder) == ["history/0001-thing.avsc was published and is gone: restore it."]


def test_an_unpublished_schema_is_refused(folder):
    (folder / "other.avsc").write_text(json.dumps(BASE))

    assert compatibility.problems(folder) == ["other.avsc is not in history: publish it under the next id."]


def test_two_schemas_with_one_id_are_refused(folder):
    shutil.copy(folder / "history" / "0001-thing.avsc", folder / "history" / "0001-twin.avsc")
    shutil.copy(folder / "thing.avsc", folder / "twin.avsc")
    list_checksums(folder)

    assert compatibility.problems(folder) == ["the ids of history are [1, 1]: they count from 1, each once."]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "history").mkdir()
    publish(tmp_path, BASE)
    return tmp_path


def publish(folder: Path, schema: dict) -> None:
    number = len(list((folder / "history").iterdir())) or 1
    text = json.dumps(schema)
    (folder / "thing.avsc").write_text(text)
    (folder / "history" / f"{number:04}-thing.avsc").write_text(text)
    list_checksums(folder)


def list_checksums(folder: Path) -> None:
    listed = subprocess.run("sha256sum *.avsc", shell=True, cwd=folder / "history", capture_output=True, check=True)
    (folder / "history" / "SHA256SUMS").write_bytes(listed.stdout)
