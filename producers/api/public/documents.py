"""The OpenAPI 3.1 document: what every route may answer besides its own, and the webhooks that we send."""

from __future__ import annotations

from enum import Enum
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

import headwater
from headwater.producers.api.problems import MEDIA_TYPE, Kind
from headwater.producers.api.public.shapes import Event, ProblemShape, Video, WebhookBody

Responses = dict[int | str, dict[str, Any]]

VIDEOS: list[str | Enum] = ["videos"]
WEBHOOKS: list[str | Enum] = ["webhooks"]
"""Tags: the chapters of the document."""

_SCHEME = "apiKey"
_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemShape"}}}}
_RETRY_AFTER = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
_RATE = {
    "RateLimit": {"schema": {"type": "string"}, "description": 'As in `"minute";r=50;t=30`: requests left, seconds.'},
    "RateLimit-Policy": {"schema": {"type": "string"}, "description": 'As in `"minute";q=60;w=60`.'},
}


def shown(shape: type[BaseModel]) -> Responses:
    """Of a route that answers with this shape."""
    return {200: {"model": shape}}


def accepted(shape: type[BaseModel]) -> Responses:
    """Of a route that makes a job."""
    headers = {
        "Location": {"schema": {"type": "string"}, "description": "Of the job."},
        "Idempotency-Replayed": {"schema": {"type": "string"}, "description": "`true`: an earlier request made it."},
        **_RETRY_AFTER,
        **_RATE,
    }
    return {202: {"model": shape, "headers": headers}}


def replayed(shape: type[BaseModel]) -> Responses:
    """Of a route that has something done again."""
    return {202: {"model": shape}}


def redirect() -> Responses:
    location = {"Location": {"schema": {"type": "string"}, "description": "A pre-signed address."}}
    return {302: {"description": "To the file.", "headers": location}}


def stream() -> Responses:
    schema = {"schema": {"type": "string"}}
    return {
        200: {
            "description": "Events `snapshot` (a Video), `status`, `progress` (an Event), until the job has ended.",
            "content": {"text/event-stream": schema},
        },
        204: {"description": "The job has ended, and the client knows its last event."},
    }


def install(app: FastAPI) -> None:
    """``/openapi.json`` says what the routes cannot say of themselves: problems, keys, webhooks."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(
                get_openapi(
                    title="headwater",
                    version=headwater.__version__,
                    description="Videos, each made once. Every error is a problem of RFC 9457.",
                    routes=app.routes,
                    webhooks=app.webhooks.routes,
                )
            )
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
    for kind in ("completed", "failed", "cancelled", "expired"):
        app.webhooks.post(f"video.{kind}", name=f"video_{kind}")(_webhook)


def _webhook(body: WebhookBody) -> None:
    """A job ended. Verify it as Standard Webhooks 1.0 say; `webhook-id` is the same however often it is sent. Answer
    2xx, or it is tried again for three days; 410 ends all deliveries to this URL."""


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    references = {"ref_template": "#/components/schemas/{model}"}
    for shape in (ProblemShape, Video, Event):
        schema = shape.model_json_schema(mode="serialization", **references)  # type: ignore[arg-type]
        schemas |= schema.pop("$defs", {})
        schemas[shape.__name__] = schema
    document["components"]["securitySchemes"] = {_SCHEME: {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _say_problems(operation, needs_key=path.startswith("/v1/"))
    for operations in document["webhooks"].values():
        operations["post"]["responses"] = {"2XX": {"description": "It is yours."}, "410": {"description": "No more."}}
    return document


def _say_problems(operation: dict[str, Any], *, needs_key: bool) -> None:
    operation["responses"].pop("422", None)
    statuses = {400, 404, 405, 413, 415, 422, 500, 503} | ({401, 403, 409, 410, 429} if needs_key else set())
    for status in sorted(statuses):
        titles = " / ".join(kind.title for kind in Kind if kind.status == status)
        said: dict[str, Any] = {"description": titles, **_PROBLEM}
        if status in (429, 503):
            said["headers"] = _RETRY_AFTER
        operation["responses"].setdefault(str(status), said)
    if needs_key:
        operation["security"] = [{_SCHEME: []}]
