import json

import pytest

from headwater.schemas import codec, topics
from headwater.schemas.registry import Registry

TOPICS = [topic.name for topic in topics.catalogue(("lab",))]
CHANGE = codec.newest("file_change")


@pytest.fixture
def registry():
    return Registry(lambda: TOPICS)


def test_an_id_gives_the_text_that_was_published_under_it(registry):
    answer = registry.answer("GET", f"/schemas/ids/{CHANGE.id}")

    assert answer.status == 200
    assert answer.body == {"schema": CHANGE.text}
    assert registry.answer("GET", f"/schemas/ids/{CHANGE.id}/schema").body == json.loads(CHANGE.text)


def test_subjects_are_the_values_of_the_topics(registry):
    assert registry.answer("GET", "/subjects").body == sorted(f"{name}-value" for name in TOPICS)


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("fs.changes.lab", "file_change"),
        ("fs.parts.lab", "file_part"),
        ("t3f9a.fs.changes.any-site.eu", "file_change"),
        ("sync.objects", "object_stored"),
        ("t3f9a.sync.objects", "object_stored"),
        ("sync.objects.large", "object_stored"),
        ("prod-sync.verified", "object_verified"),
        ("sync.requests", "sync_request"),
        ("dataset.versions", "dataset_version"),
        ("dead.letters", "dead_letter"),
        ("fs.changes.dead.letters", "file_change"),
    ],
)
def test_the_schema_of_a_subject_follows_from_its_topic_for_any_site_and_prefix(registry, topic, name):
    answer = registry.answer("GET", f"/subjects/{topic}-value/versions/latest")

    assert answer.status == 200
    assert answer.body["id"] == codec.newest(name).id
    assert answer.body["subject"] == f"{topic}-value"
    assert registry.answer("GET", f"/subjects/{topic}-value/versions").body == list(
        range(1, answer.body["version"] + 1)
    )


def test_a_schema_knows_its_subjects(registry):
    stored = codec.newest("object_stored")

    assert registry.answer("GET", f"/schemas/ids/{stored.id}/versions").body == [
        {"subject": "sync.objects-value", "version": 1},
        {"subject": "sync.objects.large-value", "version": 1},
    ]


def test_a_schema_is_found_by_its_canonical_form(registry):
    reordered = json.dumps({**json.loads(CHANGE.text), "doc": "other words"}, indent=4)

    answer = registry.answer("POST", "/subjects/fs.changes.lab-value", json.dumps({"schema": reordered}).encode())

    assert answer.status == 200
    assert answer.body["id"] == CHANGE.id


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/schemas/ids/999999", b"", 404, 40403),
        ("GET", "/schemas/ids/one", b"", 404, 40403),
        ("GET", "/subjects/other-value/versions", b"", 404, 40401),
        ("GET", "/subjects/fs.changes.lab-key/versions/latest", b"", 404, 40401),
        ("GET", "/subjects/dead.letters-value/versions/99", b"", 404, 40402),
        ("GET", "/subjects/dead.letters-value/versions/0", b"", 422, 42202),
        ("GET", "/subjects/dead.letters-value/versions/newest", b"", 422, 42202),
        ("POST", "/subjects/dead.letters-value", b'{"schema": "\\"string\\""}', 404, 40403),
        ("POST", "/subjects/dead.letters-value", b"garbage", 422, 42201),
        ("POST", "/subjects/dead.letters-value/versions", b"{}", 422, 42205),
        ("PUT", "/config", b"{}", 422, 42205),
        ("DELETE", "/subjects/dead.letters-value", b"", 422, 42205),
        ("GET", "/schemas/else", b"", 404, 404),
    ],
)
def test_errors_have_the_codes_of_the_registry(registry, method, path, body, status, code):
    answer = registry.answer(method, path, body)

    assert answer.status == status
    assert answer.body["error_code"] == code
    assert answer.body["message"]


def test_consoles_see_a_read_only_registry_of_avro(registry):
    assert registry.answer("GET", "/mode").body == {"mode": "READONLY"}
    assert registry.answer("GET", "/config").body == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert registry.answer("GET", "/config/dead.letters-value").body == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert registry.answer("GET", "/schemas/types").body == ["AVRO"]
