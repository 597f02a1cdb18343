"""What a model can do, as its worker tells it: what a request may ask, what that costs, what may run together.

The API checks requests by it before it accepts them, the scheduler estimates by it, the worker batches by it, and the
endpoint tells by it a slow step from a model that hangs. It travels and is stored as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal, Self

import jsonschema_rs
from pydantic import TypeAdapter, ValidationError

from headwater.rules.errors import BadRecord

_SIZE = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")
_SECONDS = re.compile(r"[1-9][0-9]{0,5}")
_SHOWN = 10
"""Refusals of one kind that a request is told: nobody reads more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Of one model in one pool. What a newer worker says beyond these fields is ignored."""

    sizes: tuple[str, ...]
    """Width x height in pixels, as in ``1280x720``; the first is the default."""
    max_seconds: int
    """Of video."""
    max_prompt: int = 4000
    """Characters."""
    input: Literal["none", "optional", "required"] = "none"
    """Whether it starts from a picture or clip, ``input_url``."""
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}, "additionalProperties": False}
    )
    """JSON Schema of the request's ``parameters``."""
    container: Literal["mp4", "bytes"] = "mp4"
    """What it makes: a video, or bytes that are known by length and hash alone (benchmarks)."""
    checkpoints: bool = False
    max_batch: int = 1
    """Works that it runs together; each takes a slot."""
    batch_wait_seconds: float = 0.0
    """The longest that a work waits for others to fill a batch."""
    step_limit_seconds: float = 60.0
    """A model whose step takes longer than this, and longer than ``step_medians`` median steps, counts as hung."""
    step_medians: float = 10.0
    load_limit_seconds: float = 600.0
    """The same for loading: weights of 100 GB at 200 MB/s take that long."""
    gpu_seconds_per_second: Mapping[str, float]
    """By size: GPU seconds for one second of video."""

    def __post_init__(self) -> None:
        wrong = self._wrong()
        if wrong:
            raise BadRecord(
                f"{wrong}.",
                asked="The capabilities of a model were read.",
                kept="The model is not offered.",
                advice="Correct what the model's back end says of itself, and start the worker again.",
            )
        _validator(json.dumps(self.parameters))

    def _wrong(self) -> str | None:
        if not self.sizes or not all(_SIZE.fullmatch(size) for size in self.sizes):
            return f"sizes are {list(self.sizes)!r}, but must look like 1280x720, at least one"
        for name in ("max_seconds", "max_prompt", "max_batch"):
            if getattr(self, name) < 1:
                return f"{name} is {getattr(self, name)}, but must be at least 1"
        for name in ("step_limit_seconds", "step_medians", "load_limit_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                return f"{name} is {getattr(self, name)}, but must be above 0"
        if not 0 <= self.batch_wait_seconds < float("inf"):
            return f"batch_wait_seconds is {self.batch_wait_seconds}, but must not be negative"
        for size in self.sizes:
            if not 0 < self.gpu_seconds_per_second.get(size, 0.0) < float("inf"):
                return f"gpu_seconds_per_second says nothing above 0 for {size}"
        return None

    @classmethod
    def from_json(cls, said: object) -> Self:
        """Raises BadRecord naming the field that is wrong."""
        try:
            return TypeAdapter(cls).validate_python(said)
        except ValidationError as error:
            first = error.errors()[0]
            raise BadRecord(
                f"{'.'.join(map(str, first['loc'])) or 'they'}: {first['msg']}.",
                asked="The capabilities of a model were read.",
                kept="The model is not offered.",
                advice="Run workers and API of the same release.",
            ) from error

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What of a request this model cannot do. ``field`` is its path in the request, such as ``parameters.seed``."""

    field: str
    message: str


def refusals(
    capabilities: Capabilities,
    *,
    prompt: str,
    size: str,
    seconds: str,
    parameters: Mapping[str, Any],
    has_input: bool,
) -> tuple[Refusal, ...]:
    """All that the model cannot do of it; empty: it can be accepted."""
    found: list[Refusal] = []
    if len(prompt) > capabilities.max_prompt:
        found.append(
            Refusal("prompt", f"has {len(prompt)} characters, but the model reads at most {capabilities.max_prompt}")
        )
    if size not in capabilities.sizes:
        found.append(Refusal("size", f"must be one of {', '.join(capabilities.sizes)}"))
    if not _SECONDS.fullmatch(seconds) or int(seconds) > capabilities.max_seconds:
        found.append(Refusal("seconds", f"must be whole seconds as a string, from '1' to '{capabilities.max_seconds}'"))
    if has_input and capabilities.input == "none":
        found.append(Refusal("input_url", "is nothing that this model takes"))
    if not has_input and capabilities.input == "required":
        found.append(Refusal("input_url", "is missing: this model starts from a picture or clip"))
    return (*found, *_parameters(capabilities, parameters))


def _parameters(capabilities: Capabilities, parameters: Mapping[str, Any]) -> tuple[Refusal, ...]:
    validator = _validator(json.dumps(capabilities.parameters))
    try:
        errors = [error for error, _ in zip(validator.iter_errors(dict(parameters)), range(_SHOWN), strict=False)]
    except ValueError:  # half a surrogate pair, which JSON can write and UTF-8 cannot
        return (Refusal("parameters", "holds text that is no Unicode"),)
    return tuple(Refusal(".".join(["parameters", *map(str, error.instance_path)]), error.message) for error in errors)


@lru_cache(maxsize=256)
def _validator(schema: str) -> jsonschema_rs.Validator:
    """Raises BadRecord if it is no schema. References stay inside it, and patterns take linear time."""
    try:
        return jsonschema_rs.validator_for(
            json.loads(schema), offline=True, mask="the value", pattern_options=jsonschema_rs.RegexOptions()
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise BadRecord(
            f"parameters is no JSON Schema that we can use: {str(error).partition(chr(10))[0]}.",
            asked="The capabilities of a model were read.",
            kept="The model is not offered.",
            advice="Use draft 2020-12 without remote references, and patterns without lookaround.",
        ) from error


def cost_seconds(capabilities: Capabilities, size: str, seconds: int) -> float:
    """GPU seconds that a video of that size and length is expected to take."""
    return capabilities.gpu_seconds_per_second[size] * seconds


def length_class(seconds: int) -> int:
    """Works of one class may share a batch: 1, 2, 3-4, 5-8, … seconds of video. A batch takes as long as its longest
    work, so that a shorter one is never held for more than twice its own time.
    """
    return (seconds - 1).bit_length()


def pixels(size: str) -> tuple[int, int]:
    """Width and height of ``1280x720``."""
    width, _, height = size.partition("x")
    return int(width), int(height)
