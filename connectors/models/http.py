"""A model behind HTTP: the blocking endpoint of vLLM-Omni, ``POST /v1/videos/sync``, and servers shaped like it.

The request is a form: ``prompt``, ``seconds``, ``size``, ``model``, the file ``input_reference``, and each of the job's
parameters under its own name (objects as JSON); the answer is the video. The server reports no steps, so that the whole
request counts as one. It is stopped by closing the connection.

Reference: vLLM-Omni, "Videos API" (docs/serving/videos_api.md).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from headwater.connectors.models.protocol import (
    Course,
    Failure,
    ModelError,
    Outcome,
    Output,
    Stopped,
    Wish,
    Work,
    shortened,
)
from headwater.rules.errors import BadSettings
from headwater.rules.jobs.capabilities import Capabilities
from headwater.rules.jobs.failures import code_in

_LOOK_SECONDS = 0.05
_HEALTH_SECONDS = 1.0
_MARGIN_SECONDS = 30.0
_ERROR_BYTES = 1 << 16
_REFUSALS = ("content_policy", "moderation", "safety", "guardrail")
"""What servers call it when their checker refuses a prompt."""
_STATUS = {400: "invalid_input", 413: "invalid_input", 415: "invalid_input", 422: "invalid_input", 408: "timed_out",
           504: "timed_out"}  # fmt: skip
"""What is the request's fault, or the time's. All other errors are the server's, and may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    capabilities: Mapping[str, Any]
    """As in rules/jobs/capabilities.py; parameters are fields of the form."""
    url: str = "http://127.0.0.1:8091"
    model: str | None = None
    """Its name at the server; None: the server has one."""
    key_file: Path | None = None
    """Holds the bearer token that the server asks for."""
    connect_seconds: float = 5.0
    request_seconds: float = 1800.0
    """The longest that one video may take; it is also the limit of the one step that the lease sees."""
    load_seconds: float = 1200.0
    """The longest that the server may take until it is healthy: it may load 100 GB when it starts with its worker."""


class Http:
    def __init__(self, config: HttpConfig) -> None:
        self._config = config
        limits = {
            "step_limit_seconds": config.request_seconds + _MARGIN_SECONDS,
            "load_limit_seconds": config.load_seconds + _MARGIN_SECONDS,
        }
        self._capabilities = Capabilities.from_json({**limits, **config.capabilities})
        if self._capabilities.max_batch != 1:
            raise BadSettings(
                "capabilities.max_batch is not 1.",
                asked="A model behind HTTP was to be set up.",
                advice="Its server batches; give the worker as many slots as the server takes requests at once.",
            )
        self._headers: dict[str, str] = {}

    def capabilities(self) -> Capabilities:
        return self._capabilities

    def load(self) -> None:
        """Waits until the server says that it is healthy."""
        if self._config.key_file is not None:
            self._headers["Authorization"] = f"Bearer {self._config.key_file.read_text('utf-8').strip()}"
        asyncio.run(self._healthy())

    def generate(self, batch: Sequence[Work], course: Course) -> Sequence[Outcome]:
        (work,) = batch
        outcome = asyncio.run(self._unless_stopped(work, course))
        if isinstance(outcome, Output):
            course.step(1, 1)
        return [outcome]

    async def _healthy(self) -> None:
        said = "nothing"
        try:
            async with asyncio.timeout(self._config.load_seconds), self._client() as client:
                while True:
                    try:
                        answer = await client.get("/health", timeout=self._config.connect_seconds)
                        if answer.is_success:
                            return
                        said = f"{answer.status_code} {answer.reason_phrase}"
                    except httpx.HTTPError as error:
                        said = _words(error)
                    await asyncio.sleep(_HEALTH_SECONDS)
        except TimeoutError:
            raise ModelError(
                "model_unavailable", f"The model's server at {self._config.url} is not healthy: {said}."
            ) from None

    async def _unless_stopped(self, work: Work, course: Course) -> Outcome:
        course.step(0, 1)
        request = asyncio.create_task(self._requested(work))
        while not (await asyncio.wait({request}, timeout=_LOOK_SECONDS))[0]:
            if course.wish(work) is not Wish.go_on:
                request.cancel()
                await asyncio.wait({request})
                return Stopped()
        return request.result()

    async def _requested(self, work: Work) -> Outcome:
        try:
            async with asyncio.timeout(self._config.request_seconds), self._client() as client:
                with ExitStack() as opened:
                    files: dict[str, Any] = {name: (None, value) for name, value in self._form(work).items()}
                    if work.input is not None:
                        files["input_reference"] = (work.input.name, opened.enter_context(work.input.open("rb")))
                    async with client.stream("POST", "/v1/videos/sync", files=files) as answer:
                        return await self._received(answer, work)
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
            return Failure("timed_out", f"The model's server took longer than {self._config.request_seconds:g} s.")
        except httpx.HTTPError as error:
            return Failure("model_unavailable", shortened(f"The model's server does not answer: {_words(error)}."))

    async def _received(self, answer: httpx.Response, work: Work) -> Outcome:
        if not answer.is_success:
            return await _failure(answer)
        kind = answer.headers.get("content-type", "").partition(";")[0].strip()
        if kind.startswith(("application/json", "text/")):
            return Failure("bad_output", f"The model's server answered with {kind}, not with a video.")
        path = work.folder / f"output.{'mp4' if self._capabilities.container == 'mp4' else 'bin'}"
        with path.open("wb") as file:
            async for piece in answer.aiter_bytes():
                file.write(piece)
        return Output(path)

    def _form(self, work: Work) -> dict[str, str]:
        form = {name: _field(value) for name, value in work.parameters.items()}
        form |= {"prompt": work.prompt, "seconds": str(work.seconds), "size": work.size}
        return form | ({"model": self._config.model} if self._config.model else {})

    def _client(self) -> httpx.AsyncClient:
        timeout = httpx.Timeout(self._config.request_seconds, connect=self._config.connect_seconds)
        return httpx.AsyncClient(base_url=self._config.url, headers=self._headers, timeout=timeout, trust_env=False)


def _field(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _words(error: httpx.HTTPError) -> str:
    return str(error).rstrip(".") or type(error).__name__


async def _failure(answer: httpx.Response) -> Failure:
    """What an error answer means: by its status, and by what its body says in the shape of OpenAI's errors."""
    body = b""
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) >= _ERROR_BYTES:
            break
    try:
        said = json.loads(body)
        error = said["error"] if isinstance(said.get("error"), dict) else said
        message = str(error.get("message") or error.get("detail") or said)
        kind = f"{error.get('code')} {error.get('type')}".lower()
    except (ValueError, AttributeError):
        message, kind = body.decode(errors="replace") or answer.reason_phrase, ""
    if any(word in kind for word in _REFUSALS):
        return Failure("content_refused", shortened(message))
    if answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
        return Failure(code_in(message) or "model_failed", shortened(message))
    return Failure(_STATUS.get(answer.status_code, "model_unavailable"), shortened(f"{answer.status_code}: {message}"))
