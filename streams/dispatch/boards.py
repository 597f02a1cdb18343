"""What is said of each pool, once a second: its board for the API, its gauges for operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from contextlib import suppress

from headwater.observe import job_metrics
from headwater.rules.jobs.board import SAMPLE, Board, tenant_boards
from headwater.streams.dispatch.pool import Pool


class Boards:
    """Shows the pools that are here, and none that is another scheduler's by now."""

    def __init__(self) -> None:
        self._shown: dict[str, set[int]] = {}

    def board(self, pool: Pool, now_us: int) -> Board:
        """The pool as it is, and its gauges set to that."""
        tenants = tenant_boards(pool.queue.tenants(SAMPLE), pool.granted_in_the_last_minute(now_us))
        board = Board(now_us, pool.slots, pool.free, pool.pace.value, tenants)
        self._show(pool, board, now_us)
        return board

    def show_only(self, pools: Collection[str]) -> None:
        for name in self._shown.keys() - pools:
            for gauge in (job_metrics.JOB_QUEUE_AGE_SECONDS, job_metrics.JOB_WORKERS, job_metrics.DISPATCH_TIME):
                gauge.remove(name)
            for state in ("busy", "free"):
                job_metrics.JOB_SLOTS.remove(name, state)
            for priority in self._shown.pop(name):
                job_metrics.JOB_QUEUE_DEPTH.remove(name, str(priority))

    def close(self) -> None:
        self.show_only(())

    def _show(self, pool: Pool, board: Board, now_us: int) -> None:
        depth: Counter[int] = Counter()
        for tenant in board.tenants.values():
            for one in tenant.classes:
                depth[one.priority] += one.queued
        shown = self._shown.setdefault(pool.name, {0})
        for priority in shown - depth.keys() - {0}:
            with suppress(KeyError):
                job_metrics.JOB_QUEUE_DEPTH.remove(pool.name, str(priority))
        self._shown[pool.name] = {0, *depth}
        for priority in self._shown[pool.name]:
            job_metrics.JOB_QUEUE_DEPTH.labels(pool.name, str(priority)).set(depth[priority])
        oldest_us = pool.queue.oldest_us()
        age = 0.0 if oldest_us is None else max(0.0, (now_us - oldest_us) / 1_000_000)
        job_metrics.JOB_QUEUE_AGE_SECONDS.labels(pool.name).set(age)
        job_metrics.JOB_SLOTS.labels(pool.name, "busy").set(pool.slots - pool.free)
        job_metrics.JOB_SLOTS.labels(pool.name, "free").set(pool.free)
        job_metrics.JOB_WORKERS.labels(pool.name).set(len(pool.workers))
        job_metrics.DISPATCH_TIME.labels(pool.name).set(now_us / 1_000_000)
