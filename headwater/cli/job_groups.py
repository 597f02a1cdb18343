"""What `headwater run` can run of the service of generation jobs. Several of each share the work; one is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.cli.frame import Frame

if TYPE_CHECKING:
    from headwater.observe.http import Health
    from headwater.streams.runtime.state import MemberState

JOB_GROUPS = {
    "outbox": "brings what jobs became from the catalog to the log",
    "dispatch": "gives jobs to workers: whose turn it is, in each pool",
    "sweep": "ends leases and deadlines, and removes what nobody needs",
    "webhooks": "tells owners how their jobs ended",
}
"""In the order of a job's way."""


def run_job_group(the: Frame, group: str) -> None:
    {"outbox": _outbox, "dispatch": _dispatch, "sweep": _sweep, "webhooks": _webhooks}[group](the)


def _outbox(the: Frame) -> None:
    from headwater.streams.outbox.outbox import Outbox, run_until_signalled

    outbox = Outbox(the.jobs, the.kafka)
    _member(the, "outbox", outbox.state, lambda: run_until_signalled(outbox))


def _dispatch(the: Frame) -> None:
    from headwater.streams.dispatch.dispatch import Dispatch, run_until_signalled

    dispatch = Dispatch(the.jobs, the.kafka)
    _member(the, "dispatch", dispatch.state, lambda: run_until_signalled(dispatch))


def _sweep(the: Frame) -> None:
    from headwater.streams.sweep.sweep import Sweep, run_until_signalled

    sweep = Sweep(the.jobs, the.store, the.settings.failures)
    _member(the, "sweep", sweep.state, lambda: run_until_signalled(sweep))


def _webhooks(the: Frame) -> None:
    from headwater.connectors.web.client import Web
    from headwater.consumers.webhooks.webhooks import Webhooks, run_until_signalled

    webhooks = Webhooks(the.jobs, Web(the.settings.web), the.settings.webhooks)
    _run(the, "webhooks", webhooks.health, lambda: run_until_signalled(webhooks))


def _member(the: Frame, name: str, read: Callable[[], MemberState], work: Callable[[], None]) -> None:
    from headwater.cli.service import health_of

    _run(the, name, health_of(read), work)


def _run(the: Frame, name: str, health: Callable[[], Health], work: Callable[[], None]) -> None:
    from headwater.cli.service import serving, speaking
    from headwater.schemas.records import Stage

    with serving(the.settings, name, health), speaking(the.kafka, name, Stage.other, health):
        work()
