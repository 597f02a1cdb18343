"""What the supervisor asks of the endpoint: may I begin, and: this is how it ended. The answers come as events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headwater.connectors.api.endpoint import End, Endpoint
from headwater.consumers.worker.gathering import Gathering
from headwater.consumers.worker.messages import Attempt
from headwater.rules.errors import HeadwaterError
from headwater.schemas import worker_api
from headwater.schemas.worker_api import (
    Beat,
    Claimed,
    ClaimRequest,
    Completed,
    CompleteRequest,
    EndAnswer,
    Failed,
    FailRequest,
    ReleaseRequest,
    Stopped,
    StoppedRequest,
)

Report: TypeAlias = Completed | Failed | Beat | Stopped
"""How an attempt ended; a beat is its last, with which it is given back."""


@dataclass(frozen=True, slots=True)
class ClaimsAnswered:
    claims: tuple[Claimed, ...]


@dataclass(frozen=True, slots=True)
class EndsAnswered:
    kind: type[Report]
    ends: tuple[EndAnswer, ...]


@dataclass(frozen=True, slots=True)
class AskingFailed:
    """The endpoint refuses this worker."""

    error: HeadwaterError


class Asking:
    """Two threads, while its block runs. ``claimable`` and ``wanted`` are called in them: may it still be asked?"""

    def __init__(
        self,
        endpoint: Endpoint,
        worker: str,
        incarnation: int,
        *,
        claimable: Callable[[Attempt], bool],
        wanted: Callable[[Report], bool],
        tell: Callable[[ClaimsAnswered | EndsAnswered | AskingFailed], None],
    ) -> None:
        self._endpoint = endpoint
        self._worker, self._incarnation = worker, incarnation
        self._tell = tell

        def fail(error: HeadwaterError) -> None:
            tell(AskingFailed(error))

        self._claims = Gathering[Attempt]("claims", ask=self._claim, wanted=claimable, fail=fail)
        self._ends = Gathering[Report]("ends", ask=self._end, wanted=wanted, fail=fail)

    def __enter__(self) -> Asking:
        self._claims.start()
        self._ends.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._claims.close()
        self._ends.close()

    def claim(self, attempt: Attempt) -> None:
        self._claims.put(attempt)

    def report(self, report: Report) -> None:
        self._ends.put(report)

    def _claim(self, attempts: Sequence[Attempt]) -> None:
        grants = tuple(worker_api.Attempt(job=job, epoch=epoch) for job, epoch in attempts)
        request = ClaimRequest(worker=self._worker, incarnation=self._incarnation, grants=grants)
        self._tell(ClaimsAnswered(self._endpoint.claim(request).claims))

    def _end(self, reports: Sequence[Report]) -> None:
        """All of one type."""
        answer = self._endpoint.end(self._request(reports))
        self._tell(EndsAnswered(type(reports[0]), answer.ends))

    def _request(self, reports: Sequence[Report]) -> End:
        signed = {"worker": self._worker, "incarnation": self._incarnation}
        match reports[0]:
            case Completed():
                return CompleteRequest.model_validate(signed | {"results": reports})
            case Failed():
                return FailRequest.model_validate(signed | {"failures": reports})
            case Beat():
                return ReleaseRequest.model_validate(signed | {"releases": reports})
            case Stopped():
                return StoppedRequest.model_validate(signed | {"stopped": reports})
