"""The schemas of our topics, in the answers of Confluent's Schema Registry REST interface, read only.

Kafbat UI, AKHQ, Redpanda Console and every client with a registry deserializer ask these questions:

    GET  /schemas/ids/{id}                    the schema that a record names in its first five bytes
    GET  /schemas/ids/{id}/schema             the same, as bare text
    GET  /schemas/ids/{id}/versions           the subjects that have it
    GET  /subjects                            the subjects: ``<topic>-value`` of each topic of the catalogue
    GET  /subjects/{subject}/versions         1, 2, … oldest first
    GET  /subjects/{subject}/versions/{v}     one of them, by number or ``latest``
    POST /subjects/{subject}                  is this schema one of the subject's?
    GET  /config, /mode, /schemas/types, /contexts    FULL_TRANSITIVE, READONLY, AVRO, one context

Any site and any cluster prefix is known: the record of a topic follows from its name. Errors have the registry's own
codes (40401 subject, 40402 version, 40403 schema, 42205 read only). Pure: no socket here, see observe/http.py.
Protocol: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from fastavro.schema import to_parsing_canonical_form

from headwater.schemas import topics
from headwater.schemas.codec import PublishedSchema, history

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_OF_A_SITE = re.compile(r"(?:\A|.*?[._-])fs\.(changes|parts)\..+\Z", re.DOTALL)
_SHARED = {topic.name: topic for topic in topics.catalogue(())}


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status and the JSON body that goes with it."""

    status: int
    body: object


class _Missing(Exception):
    """Ends the handling of a request with one of the registry's errors."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.answer = Answer(status, {"error_code": code, "message": message})


class Registry:
    """Answers requests. ``topic_names`` gives the topics that /subjects lists, as the cluster names them."""

    def __init__(self, topic_names: Callable[[], Iterable[str]]) -> None:
        self._topic_names = topic_names

    def serves(self, path: str) -> bool:
        """Is this path one of the registry's, rather than one of the process's own?"""
        return path.strip("/").split("/")[0] in {"schemas", "subjects", "config", "mode", "contexts"}

    def answer(self, method: str, path: str, body: bytes = b"") -> Answer:
        """The answer to one request; ``path`` without its query, percent-encoded as it came."""
        segments = [unquote(segment) for segment in path.strip("/").split("/")]
        try:
            return self._route(method, segments, body)
        except _Missing as missing:
            return missing.answer

    def _route(self, method: str, segments: list[str], body: bytes) -> Answer:
        match method, segments:
            case "GET", ["schemas", "types"]:
                return Answer(200, ["AVRO"])
            case "GET", ["schemas", "ids", number]:
                return Answer(200, {"schema": _by_id(number).text})
            case "GET", ["schemas", "ids", number, "schema"]:
                return Answer(200, json.loads(_by_id(number).text))
            case "GET", ["schemas", "ids", number, "versions"]:
                return Answer(200, self._uses(_by_id(number)))
            case "GET", ["subjects"]:
                return Answer(200, self._subjects())
            case "GET", ["subjects", subject, "versions"]:
                return Answer(200, list(range(1, len(_versions(subject)) + 1)))
            case "GET", ["subjects", subject, "versions", version]:
                return Answer(200, _described(subject, _version(subject, version)))
            case "GET", ["subjects", subject, "versions", version, "schema"]:
                return Answer(200, json.loads(_versions(subject)[_version(subject, version) - 1].text))
            case "POST", ["subjects", subject]:
                return Answer(200, _described(subject, _lookup(subject, body)))
            case "GET", ["config", *_]:
                return Answer(200, {"compatibilityLevel": "FULL_TRANSITIVE"})
            case "GET", ["mode", *_]:
                return Answer(200, {"mode": "READONLY"})
            case "GET", ["contexts"]:
                return Answer(200, ["."])
            case (("POST" | "PUT" | "DELETE"), _):
                raise _Missing(422, 42205, "This registry is read only: schemas are published with headwater itself.")
        raise _Missing(404, 404, "HTTP 404 Not Found")

    def _subjects(self) -> list[str]:
        return sorted(f"{name}-value" for name in self._topic_names())

    def _uses(self, schema: PublishedSchema) -> list[dict[str, object]]:
        of_name = [subject for subject in self._subjects() if _name_of(subject) == schema.name]
        return [{"subject": s, "version": _versions(s).index(schema) + 1} for s in of_name]


def _by_id(number: str) -> PublishedSchema:
    schema = history().get(int(number)) if number.isdigit() else None
    if schema is None:
        raise _Missing(404, 40403, f"Schema {number} not found")
    return schema


def _name_of(subject: str) -> str | None:
    """The schema name of the records in ``<prefix><topic>-value``; None for a topic that is not ours."""
    topic = subject.removesuffix("-value")
    if topic == subject:
        return None
    if of_site := _OF_A_SITE.match(topic):
        make = topics.fs_changes if of_site[1] == "changes" else topics.fs_parts
        return make("").record.schema_name
    for name in sorted(_SHARED, key=len, reverse=True):
        if topic.endswith(name):
            return _SHARED[name].record.schema_name
    return None


def _versions(subject: str) -> list[PublishedSchema]:
    name = _name_of(subject)
    found = sorted((schema for schema in history().values() if schema.name == name), key=lambda schema: schema.id)
    if not found:
        raise _Missing(404, 40401, f"Subject '{subject}' not found.")
    return found


def _version(subject: str, asked: str) -> int:
    newest = len(_versions(subject))
    if asked in ("latest", "-1"):
        return newest
    if not asked.isdigit() or int(asked) < 1:
        raise _Missing(422, 42202, f"The specified version '{asked}' is not a valid version id.")
    if int(asked) > newest:
        raise _Missing(404, 40402, f"Version {asked} not found.")
    return int(asked)


def _lookup(subject: str, body: bytes) -> int:
    try:
        wanted = to_parsing_canonical_form(json.loads(json.loads(body)["schema"]))
    except Exception as error:  # whatever a client may send: not JSON, no schema in it, not an Avro schema
        raise _Missing(422, 42201, f"Invalid schema: {error}") from error
    for number, schema in enumerate(_versions(subject), start=1):
        if to_parsing_canonical_form(schema.parsed) == wanted:
            return number
    raise _Missing(404, 40403, "Schema not found")


def _described(subject: str, version: int) -> dict[str, object]:
    schema = _versions(subject)[version - 1]
    return {"subject": subject, "version": version, "id": schema.id, "schema": schema.text}
