"""The client of the internal endpoint: what a worker asks, with its credentials, over connections that are kept.

Every request may be repeated. One whose connection broke is sent once more at once; further attempts are
the caller's.
"""

from __future__ import annotations

from typing import TypeVar

import httpx
from pydantic import ValidationError

from headwater.rules.errors import BadRecord, Fenced, HeadwaterError, Permanent, Refused, Unavailable
from headwater.schemas.worker_api import (
    BeatRequest,
    Beats,
    ClaimRequest,
    Claims,
    CompleteRequest,
    Ends,
    FailRequest,
    Registered,
    Registration,
    ReleaseRequest,
    Shape,
    StoppedRequest,
)

Answer = TypeVar("Answer", bound=Shape)

_ENDS: dict[type[Shape], str] = {
    CompleteRequest: "/complete",
    FailRequest: "/fail",
    ReleaseRequest: "/release",
    StoppedRequest: "/stopped",
}

End = CompleteRequest | FailRequest | ReleaseRequest | StoppedRequest


class Endpoint:
    """One internal endpoint. Safe for threads; close it once.

    Methods raise Unavailable where it does not answer in time, Refused where it does not know the key, Fenced where a
    newer incarnation of the worker is registered, Permanent where it does not understand the request.
    """

    def __init__(self, url: str, key: str, *, answer_seconds: float = 10.0) -> None:
        self._url = url
        self._client = httpx.Client(
            base_url=url,
            headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
            timeout=httpx.Timeout(answer_seconds, connect=2.0),
            # The endpoint closes a connection that was unused for 5 s; one that this side gives up before is not lost.
            limits=httpx.Limits(max_connections=16, keepalive_expiry=4.0),
            trust_env=False,
        )

    def register(self, request: Registration) -> Registered:
        return self._ask("/register", request, Registered)

    def claim(self, request: ClaimRequest) -> Claims:
        return self._ask("/claim", request, Claims)

    def beat(self, request: BeatRequest, within_seconds: float) -> Beats:
        """A beat that is not answered ``within_seconds`` is worth less than the next one."""
        return self._ask("/beat", request, Beats, within_seconds)

    def end(self, request: End) -> Ends:
        """Results, failures, releases, or proofs of a stop."""
        return self._ask(_ENDS[type(request)], request, Ends)

    def close(self) -> None:
        self._client.close()

    def _ask(self, path: str, request: Shape, kind: type[Answer], within_seconds: float | None = None) -> Answer:
        answer = self._sent(path, request.model_dump_json(), within_seconds)
        if answer.status_code != 200:
            raise self._error(path, answer)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            raise BadRecord(
                f"the endpoint at {self._url} answered what is no answer: {error.errors()[0]['msg']}",
                asked=f"POST {path}.",
                advice="Check that worker.endpoint names the internal port of `headwater api`.",
            ) from error

    def _sent(self, path: str, body: str, within_seconds: float | None) -> httpx.Response:
        timeout = httpx.USE_CLIENT_DEFAULT if within_seconds is None else httpx.Timeout(within_seconds)
        for again in (True, False):
            try:
                return self._client.post(path, content=body, timeout=timeout)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as broken:
                if not again:
                    raise self._unavailable(path, broken) from broken
            except httpx.TransportError as error:
                raise self._unavailable(path, error) from error
        raise AssertionError("the second attempt returns or raises")

    def _unavailable(self, path: str, error: Exception) -> HeadwaterError:
        return Unavailable(
            f"the endpoint at {self._url} does not answer: {error or type(error).__name__}",
            asked=f"POST {path}.",
            kept="Nothing is lost: the request is repeated while the lease lasts.",
            advice="Check that `headwater api` runs, and that worker.endpoint names its internal port.",
        )

    def _error(self, path: str, answer: httpx.Response) -> HeadwaterError:
        said = _detail(answer)
        asked = f"POST {path} at {self._url}."
        match answer.status_code:
            case 401 | 403:
                return Refused(
                    f"the endpoint refused the worker's key: {said}",
                    asked=asked,
                    advice="Give this worker the key of the API's settings (HEADWATER_WORKER__KEY or worker.key_file).",
                )
            case 409:
                return Fenced(
                    said,
                    asked=asked,
                    kept="What the newer one does is untouched.",
                    advice="Give each worker a name of its own (worker.name), or stop the other.",
                )
            case 429 | 500 | 502 | 503 | 504:
                return Unavailable(f"the endpoint cannot: {said}", asked=asked, kept="The request is repeated.")
            case _:
                return Permanent(
                    f"the endpoint answered {answer.status_code}: {said}",
                    asked=asked,
                    advice="Run the same release of headwater on workers and API.",
                )


def _detail(answer: httpx.Response) -> str:
    """The problem's own words."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:500] or f"status {answer.status_code}"
