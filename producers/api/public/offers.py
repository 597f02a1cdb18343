"""What may be asked for, and how long it takes: models and the boards of pools, as the catalog has them.

Read once a second at most, by one request while the others go on with what was known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from headwater.connectors.jobs import pools
from headwater.connectors.jobs.database import JobsDatabase
from headwater.observe import logs
from headwater.rules.errors import HeadwaterError
from headwater.rules.jobs.board import Board, Standing
from headwater.rules.jobs.capabilities import Capabilities
from headwater.rules.jobs.states import JobState
from headwater.rules.jobs.video import JobView

log = logs.logger()

_BELIEVED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Pool:
    """``board`` is None until a scheduler published one; ``read_at`` and its age are of the process's clock."""

    pool: str
    board: Board | None
    board_age_seconds: float | None
    max_wait_seconds: float | None


@dataclass(frozen=True, slots=True)
class Offers:
    """``models``: by name, the capabilities in each pool that has it."""

    models: Mapping[str, Mapping[str, Capabilities]] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)

    def standing(self, job: JobView, weight: float) -> Standing | None:
        """Where a queued job stands; None for one that does not wait, or whose pool nobody schedules."""
        pool = self.pools.get(job.pool)
        if job.state is not JobState.queued or pool is None or pool.board is None:
            return None
        queued_us = round(job.queued_at.timestamp() * 1e6)
        return pool.board.standing(job.tenant, job.priority, queued_us, job.cost_seconds, weight)


class Market:
    """Safe for threads."""

    def __init__(self, database: JobsDatabase, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._reading = Lock()
        self._offers: Offers | None = None
        self._until = 0.0

    def offers(self) -> Offers:
        """What is offered, at most a second or so old. Raises Unavailable where nothing was ever read."""
        if self._offers is not None and self._clock() < self._until:
            return self._offers
        if self._reading.acquire(blocking=self._offers is None):
            try:
                self._renew()
            finally:
                self._reading.release()
        assert self._offers is not None
        return self._offers

    def _renew(self) -> None:
        if self._offers is not None and self._clock() < self._until:
            return  # another did it while this one waited
        try:
            self._offers = self._read()
        except HeadwaterError:
            if self._offers is None:
                raise
            log.warning("offers.old", kept="What was read before is still offered.")
        self._until = self._clock() + _BELIEVED_SECONDS

    def _read(self) -> Offers:
        with self._database.quiet() as transaction:
            rows, boards = pools.models(transaction), pools.boards(transaction)
        models: dict[str, dict[str, Capabilities]] = {}
        for row in rows:
            try:
                models.setdefault(row.model, {})[row.pool] = Capabilities.from_json(row.capabilities)
            except HeadwaterError as error:
                log.warning("offers.bad_model", model=row.model, pool=row.pool, error=str(error))
        return Offers(models, {row.pool: _pool(row) for row in boards})


def _pool(row: pools.Board) -> Pool:
    board = Board.from_json(row.board) if row.board is not None else None
    return Pool(row.pool, board, row.seconds, row.max_wait_seconds)
