"""The API's client in Python: what the command line uses, and what a program of yours may.

    with Client(ClientConfig(url="http://127.0.0.1:18080", key=key)) as client:
        job = client.submit({"prompt": "a red fox", "model": "testcard"})["id"]
        for event in client.events(job):
            print(event.data["status"], event.data["progress"])
        print(client.content_url(job))

Answers are the API's JSON. Problems come as our errors: Refused (the request, the key), NotFound, Unavailable (nobody
answers, or a server behind the API does not), and Transient for 409 of a request under way and for 429, whose
``facts["retry_after_seconds"]`` says when to ask again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from headwater.connectors.api.config import ClientConfig
from headwater.connectors.api.events import Event, events
from headwater.rules.errors import BadSettings, HeadwaterError, NotFound, Refused, Transient, Unavailable

_TRIES = 3
"""Of a request that is safe to repeat, before an API that does not answer is given up."""
_PAUSE_SECONDS = 0.5
_SILENT_SECONDS = 45.0
"""The API pings each 15 s: a stream that says nothing for three of them is dead."""


class Client:
    """Safe for threads. Close it, or use it as a context manager. Every method raises what the module says."""

    def __init__(self, config: ClientConfig) -> None:
        """Raises BadSettings where the key or the address is missing."""
        if not config.url:
            raise _missing("client.url", "Set HEADWATER_API, or client.url in headwater.toml.")
        if not config.key:
            raise _missing("client.key", "Set HEADWATER_CLIENT__KEY, or client.key_file to a file that holds it.")
        self._where = config.url.rstrip("/")
        self._http = httpx.Client(
            base_url=self._where,
            headers={"Authorization": f"Bearer {config.key}"},
            timeout=httpx.Timeout(config.request_seconds, connect=config.connect_seconds),
        )

    def submit(self, request: Mapping[str, Any], *, idempotency_key: str | None = None) -> dict[str, Any]:
        """A new job. Its answer may be lost on the way: the request is repeated under one idempotency key, so that
        there is one job all the same."""
        headers = {"Idempotency-Key": f'"{idempotency_key or uuid.uuid4().hex}"'}
        return self._json("POST", "/v1/videos", json=dict(request), headers=headers)

    def get(self, job: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/videos/{job}")

    def listed(
        self, *, limit: int = 20, after: str | None = None, status: Sequence[str] = (), oldest_first: bool = False
    ) -> dict[str, Any]:
        """A page: ``data``, and ``next``, which is ``after`` of the next page, or None."""
        order = "asc" if oldest_first else "desc"
        parameters = {"limit": limit, "after": after, "status": list(status), "order": order}
        return self._json("GET", "/v1/videos", params={name: v for name, v in parameters.items() if v is not None})

    def cancel(self, job: str) -> dict[str, Any]:
        return self._json("POST", f"/v1/videos/{job}/cancel")

    def delete(self, job: str) -> dict[str, Any]:
        return self._json("DELETE", f"/v1/videos/{job}")

    def undelete(self, job: str) -> dict[str, Any]:
        return self._json("POST", f"/v1/videos/{job}/undelete")

    def redrive(self, job: str, *, idempotency_key: str | None = None) -> dict[str, Any]:
        """The same video again, as a new job."""
        headers = {"Idempotency-Key": f'"{idempotency_key or uuid.uuid4().hex}"'}
        return self._json("POST", f"/v1/videos/{job}/redrive", headers=headers)

    def attempts(self, job: str) -> list[dict[str, Any]]:
        return list(self._json("GET", f"/v1/videos/{job}/attempts")["data"])

    def deliveries(self, job: str) -> list[dict[str, Any]]:
        """The webhooks of a job."""
        return list(self._json("GET", f"/v1/videos/{job}/deliveries")["data"])

    def replay(self, job: str, delivery: str) -> None:
        """Send a webhook again."""
        self._json("POST", f"/v1/videos/{job}/deliveries/{delivery}/replay")

    def models(self) -> list[dict[str, Any]]:
        return list(self._json("GET", "/v1/models")["data"])

    def content_url(self, job: str, *, variant: str = "video") -> str:
        """Where the result lies: an address that needs no key, for a while."""
        answer = self._asked("GET", f"/v1/videos/{job}/content", params={"variant": variant})
        return answer.headers["location"]

    def events(self, job: str, *, last_event_id: str | None = None) -> Iterator[Event]:
        """What happens to a job, from now or from after an event, to its end. A stream that breaks off is resumed."""
        failures = 0
        while failures < _TRIES:
            try:
                with self._stream(job, last_event_id) as stream:
                    if stream.status_code == httpx.codes.NO_CONTENT:
                        return
                    for event in events(stream.iter_lines()):
                        yield event
                        if event.final:
                            return
                        last_event_id, failures = event.id, 0
            except (httpx.TransportError, Unavailable):
                failures += 1
            time.sleep(_PAUSE_SECONDS * 2**failures)
        raise self._unavailable("its stream of events broke off again and again")

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _stream(self, job: str, last_event_id: str | None) -> Iterator[httpx.Response]:
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        timeout = httpx.Timeout(_SILENT_SECONDS, connect=self._http.timeout.connect)
        with self._http.stream("GET", f"/v1/videos/{job}/events", headers=headers, timeout=timeout) as response:
            if response.is_error:
                response.read()
                raise self._error(response)
            yield response

    def _json(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._asked(method, path, **request).json()
        return answer

    def _asked(self, method: str, path: str, **request: Any) -> httpx.Response:
        """The answer. All our requests may be repeated: those that make a job carry an idempotency key."""
        for attempt in range(1, _TRIES + 1):
            try:
                answer = self._http.request(method, path, **request)
            except httpx.TransportError as error:
                failure: HeadwaterError = self._unavailable(str(error) or type(error).__name__)
            else:
                if not answer.is_error:
                    return answer
                failure = self._error(answer)
            if not isinstance(failure, Transient) or failure.facts.get("status") == httpx.codes.TOO_MANY_REQUESTS:
                break
            if attempt < _TRIES:
                time.sleep(_PAUSE_SECONDS * attempt)
        raise failure

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(
            f"{self._where} does not answer: {why}",
            asked="The HTTP service of jobs was asked.",
            kept="What it accepted before is kept.",
            advice="Check that `headwater api` runs there; `headwater up` starts one here.",
        )

    def _error(self, answer: httpx.Response) -> HeadwaterError:
        """A problem as one of our errors."""
        problem = _problem(answer)
        fields = [next(iter(one.values())) for one in problem.get("errors", ())]
        facts: dict[str, Any] = {"status": answer.status_code, "type": problem.get("type"), "fields": fields}
        said = [f"{field}: {one['detail']}" for field, one in zip(fields, problem.get("errors", ()), strict=True)]
        happened = f"{problem['title']}: {'; '.join(said) or problem['detail']}"
        asked = f"{answer.request.method} {answer.request.url.path} was asked."
        if (retry := answer.headers.get("retry-after", "")).isdigit():
            facts["retry_after_seconds"] = int(retry)
        kind = _KINDS.get(answer.status_code, Refused if answer.status_code < 500 else Unavailable)
        kind = Transient if problem.get("type") == _IN_FLIGHT else kind
        return kind(happened, asked=asked, advice=_ADVICE.get(answer.status_code, ""), **facts)


def _problem(answer: httpx.Response) -> dict[str, Any]:
    """The body; of an answer that is none of ours, such as a proxy's, what can be said of it."""
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if isinstance(problem, dict) and {"title", "detail"} <= problem.keys():
        return problem
    return {"title": f"{answer.status_code} {answer.reason_phrase}", "detail": "The answer is not one of headwater's."}


def _missing(key: str, advice: str) -> BadSettings:
    return BadSettings(
        f"{key} is not set.",
        asked="The HTTP service of jobs was to be asked.",
        kept="Nothing was sent.",
        advice=f"{advice} `headwater up` makes both for the local stack.",
        key=key,
    )


_IN_FLIGHT = "/problems/in-flight"
_KINDS: dict[int, type[HeadwaterError]] = {404: NotFound, 429: Transient}
_ADVICE = {
    404: "`headwater jobs list` shows this tenant's.",
    401: "Set HEADWATER_CLIENT__KEY, or client.key_file, to a key of a tenant: `headwater tenants key NAME` makes one.",
    429: "Ask again later.",
    503: "Ask again in a moment.",
}
