"""``headwater api``: the HTTP service of generation jobs."""

from __future__ import annotations

import typer

from headwater.cli import frame
from headwater.cli.frame import AsJson
from headwater.rules.errors import BadSettings


def api(context: typer.Context, as_json: AsJson = False) -> None:
    """Serve generation jobs over HTTP.

    Until SIGTERM or Ctrl-C, which let what is under way be answered. Tenants use api.port, workers api.internal_port.
    Any number may run beside each other. The API describes itself at /openapi.json. --json makes the log JSON.
    """
    from headwater.cli.service import run_until_signalled, serving, speaking
    from headwater.producers.api.endpoint.endpoint import Endpoint
    from headwater.producers.api.process import Api
    from headwater.schemas.records import Stage

    the = frame.of(context)
    settings = the.settings
    if not settings.worker.key:
        raise BadSettings(
            "worker.key is not set.",
            asked="The HTTP service was to be started.",
            kept="Nothing was started.",
            advice="Make a key that all workers share (openssl rand -hex 32) and name its file with worker.key_file, "
            "or set HEADWATER_WORKER__KEY. On one machine `headwater up` makes one.",
            key="worker.key",
        )
    the.log_as_a_service(as_json=as_json)
    endpoint = Endpoint(settings.worker.key, the.jobs, the.kafka, settings.failures)
    service = Api(
        settings.api, database=the.jobs, kafka=the.kafka, objects=the.store, web=settings.web, endpoint=endpoint
    )
    with serving(settings, "api", service.health), speaking(the.kafka, "api", Stage.other, service.health):
        run_until_signalled(service)
