"""Every error as a problem (RFC 9457): one body for people and programs, whatever went wrong where.

``errors`` names each field that is to blame: a JSON pointer into the body, a parameter or a header. Nothing that the
client sent is repeated in a problem: it may be a secret, or no text at all.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from enum import Enum
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from headwater.observe import logs
from headwater.rules.errors import HeadwaterError, Transient

log = logs.logger()

MEDIA_TYPE = "application/problem+json"
IANA = "https://iana.org/assignments/http-problem-types#"
"""Where the problem types of the RateLimit fields' draft are registered."""

_RETRY_SECONDS = 2
"""A restarted database answers again after about so long."""


class Kind(Enum):
    """Status, title, and the path at which ``GET`` says what the type means."""

    bad_request = (400, "The request is malformed")
    unauthorized = (401, "No valid API key")
    forbidden = (403, "This tenant is disabled")
    not_found = (404, "No such thing here")
    method_not_allowed = (405, "This path does not take that method")
    not_ready = (409, "The video is not there yet")
    not_final = (409, "The job has not ended")
    already_final = (409, "The job has ended")
    in_flight = (409, "A request with this idempotency key is under way")
    superseded = (409, "A newer start of this worker is registered")
    gone = (410, "The video is not kept any more")
    too_large = (413, "The body is too large")
    unsupported_media_type = (415, "The body must be JSON")
    invalid = (422, "A field of the request is not acceptable")
    key_reused = (422, "The idempotency key belongs to another request")
    quota_exceeded = (429, "A quota is exceeded")
    temporary_reduced_capacity = (429, "The capacity is taken for longer than this service promises")
    internal = (500, "Something went wrong here")
    unavailable = (503, "A server that this needs does not answer")

    @property
    def status(self) -> int:
        return self.value[0]

    @property
    def title(self) -> str:
        return self.value[1]

    @property
    def slug(self) -> str:
        return self.name.replace("_", "-")

    @property
    def type(self) -> str:
        if self in (Kind.quota_exceeded, Kind.temporary_reduced_capacity):
            return IANA + self.slug
        return f"/problems/{self.slug}"


class Problem(Exception):
    """Raised by handlers; becomes the answer. ``errors`` as the module says; ``more`` are extension members."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        self.more = dict(more or {})


def refused(
    detail: str, *, pointer: str | None = None, parameter: str | None = None, header: str | None = None
) -> Problem:
    """An input that is not acceptable: 422, and exactly one of the three says which."""
    where = {"pointer": pointer, "parameter": parameter, "header": header}
    error = {name: value for name, value in where.items() if value is not None} | {"detail": detail}
    return Problem(Kind.invalid, detail, errors=[error])


def unavailable(detail: str, retry_seconds: int = _RETRY_SECONDS) -> Problem:
    return Problem(Kind.unavailable, detail, headers={"Retry-After": str(retry_seconds)})


def answer(problem: Problem) -> Response:
    """The response to a problem."""
    kind = problem.kind
    more: dict[str, object] = {"errors": list(problem.errors)} if problem.errors else {}
    return _response(kind.type, kind.title, kind.status, problem.detail, problem.headers, more | problem.more)


def _response(
    type_: str, title: str, status: int, detail: str, headers: Mapping[str, str], more: Mapping[str, object]
) -> Response:
    """``instance`` is new for each answer; where the status is 5xx, our log has it too."""
    instance = f"urn:uuid:{uuid.uuid4()}"
    if status >= 500:
        log.warning("api.failed", status=status, instance=instance, detail=detail)
    body = {"type": type_, "title": title, "status": status, "detail": detail, "instance": instance, **more}
    return Response(json.dumps(body), status, headers=dict(headers), media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Every error that a handler of this application meets becomes a problem."""

    async def ours(_: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return answer(error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return answer(_of_validation(request, error))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _of_http(app, request, error)

    async def failed(_: Request, error: Exception) -> Response:
        assert isinstance(error, HeadwaterError)
        return answer(of_error(error))

    app.add_exception_handler(Problem, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(HeadwaterError, failed)


def of_error(error: HeadwaterError) -> Problem:
    """A server that is away is said as such, without its address; all else is ours to mend: the log has it."""
    log.warning("api.error", error=str(error), kind=type(error).__name__)
    if isinstance(error, Transient):
        return unavailable("Nothing was done, or what was done is found again under the same idempotency key.")
    return Problem(Kind.internal, "This is no fault of the request. The log of the service has it.")


def _of_validation(request: Request, error: RequestValidationError) -> Problem:
    first, *_ = found = error.errors()
    if first["type"] == "json_invalid":
        detail = f"The body is no JSON: {first['ctx']['error']} at character {first['loc'][1]}."
        return Problem(Kind.bad_request, detail, errors=[{"pointer": "#", "detail": detail}])
    if tuple(first["loc"]) == ("body",) and first["type"] != "missing" and not _says_json(request):
        return Problem(Kind.unsupported_media_type, "Send the body as application/json.")
    errors = [_where(one["loc"]) | {"detail": one["msg"]} for one in found]
    named = ", ".join(sorted({next(iter(one.values())) for one in errors}))
    return Problem(Kind.invalid, f"Not acceptable: {named}.", errors=errors)


def _where(location: Sequence[int | str]) -> dict[str, str]:
    """Which part of the request: FastAPI's location as a JSON pointer (RFC 6901), or a parameter's or header's name."""
    part, *rest = location
    if part == "body":
        return {"pointer": "#" + "".join(f"/{_escaped(str(name))}" for name in rest)}
    return {"header" if part == "header" else "parameter": str(rest[0]) if rest else str(part)}


def _escaped(name: str) -> str:
    """A name as a segment of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _says_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


_OF_STATUS = {400: Kind.bad_request, 404: Kind.not_found, 405: Kind.method_not_allowed, 413: Kind.too_large}
_DETAIL_OF_STATUS = {
    400: "The body is no JSON in UTF-8, or is nested too deep.",
    404: "There is nothing at this path.",
    405: "See Allow for the methods that this path takes.",
    413: "The body is larger than this service takes.",
}


def _of_http(app: FastAPI, request: Request, error: HTTPException) -> Response:
    """What the framework raises by itself."""
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(app.routes, request)) or headers.get("Allow", "")
    if kind := _OF_STATUS.get(error.status_code):
        return answer(Problem(kind, _DETAIL_OF_STATUS[error.status_code], headers=headers))
    title = HTTPStatus(error.status_code).phrase
    return _response("about:blank", title, error.status_code, str(error.detail), headers, {})


def _methods(routes: Sequence[BaseRoute], request: Request) -> list[str]:
    """All methods of a path; the framework names those of its first route only."""
    there = (route for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in there for method in getattr(route, "methods", None) or ()})
