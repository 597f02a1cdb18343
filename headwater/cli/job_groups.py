"""What `headwater run` can run of the service of generation jobs. Several of each share the work; one is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.cli.frame import Frame

if TYPE_CHECKING:
    from headwater.cli.service import Stoppable
    from headwater.observe.http import Health

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
    from headwater.cli.service import health_of
    from headwater.streams.outbox.outbox import Outbox

    outbox = Outbox(the.jobs, the.kafka)
    _run(the, "outbox", health_of(outbox.state), outbox)


def _dispatch(the: Frame) -> None:
    from headwater.cli.service import health_of
    from headwater.streams.dispatch.dispatch import Dispatch

    dispatch = Dispatch(the.jobs, the.kafka)
    _run(the, "dispatch", health_of(dispatch.state), dispatch)


def _sweep(the: Frame) -> None:
    from headwater.cli.service import health_of
    from headwater.streams.sweep.sweep import Sweep

    sweep = Sweep(the.jobs, the.store, the.settings.failures)
    _run(the, "sweep", health_of(sweep.state), sweep)


def _webhooks(the: Frame) -> None:
    from headwater.connectors.web.client import Web
    from headwater.consumers.webhooks.webhooks import Webhooks

    webhooks = Webhooks(the.jobs, Web(the.settings.web), the.settings.webhooks)
    _run(the, "webhooks", webhooks.health, webhooks)


def _run(the: Frame, name: str, health: Callable[[], Health], work: Stoppable) -> None:
    from headwater.cli.service import run_until_signalled, serving, speaking
    from headwater.schemas.records import Stage

    with serving(the.settings, name, health), speaking(the.kafka, name, Stage.other, health):
        run_until_signalled(work)
