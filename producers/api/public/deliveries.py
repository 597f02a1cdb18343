"""The webhooks of a job: what was sent, how that ended, and sending it again."""

from __future__ import annotations

import re
from datetime import datetime

from fastapi import FastAPI, Request, Response

from headwater.connectors.jobs import deliveries
from headwater.producers.api.problems import Kind, Problem
from headwater.producers.api.public import documents
from headwater.producers.api.public.answers import as_json
from headwater.producers.api.public.keys import caller
from headwater.producers.api.public.service import Service
from headwater.producers.api.public.shapes import Delivery, DeliveryList
from headwater.producers.api.public.videos import owned

_ID = re.compile(r"wh_[0-9a-f]{32}")


class Deliveries:
    """The routes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def add_to(self, app: FastAPI) -> None:
        path, tags = "/v1/videos/{video_id}/deliveries", documents.WEBHOOKS
        app.get(path, responses=documents.shown(DeliveryList), tags=tags)(self.list_deliveries)
        app.post(
            f"{path}/{{delivery_id}}/replay", status_code=202, responses=documents.replayed(DeliveryList), tags=tags
        )(self.replay_delivery)

    def list_deliveries(self, request: Request, video_id: str) -> Response:
        """At most one, once the job has ended: the webhook that tells so."""
        owned(self._service, request, video_id)
        return as_json(self._listed(request, video_id))

    def replay_delivery(self, request: Request, video_id: str, delivery_id: str) -> Response:
        """Sends it again, with the same webhook-id, as often as the schedule says; also to a URL that answered 410."""
        owned(self._service, request, video_id)
        if not self._replay(request, video_id, delivery_id):
            raise Problem(Kind.not_found, "This video has no such delivery.")
        return as_json(self._listed(request, video_id), 202)

    def _replay(self, request: Request, video_id: str, delivery_id: str) -> bool:
        if not _ID.fullmatch(delivery_id):
            return False
        with self._service.database.transaction() as transaction:
            return deliveries.replay(transaction, caller(request).tenant, video_id, delivery_id)

    def _listed(self, request: Request, video_id: str) -> dict[str, object]:
        with self._service.database.quiet() as transaction:
            found = deliveries.of_job(transaction, caller(request).tenant, video_id)
        return {"object": "list", "data": [_delivery(one) for one in found]}


def _delivery(one: deliveries.Shown) -> dict[str, object]:
    """The shape ``Delivery``."""
    said = {name: getattr(one, "delivery" if name == "id" else name) for name in Delivery.model_fields}
    return {name: int(value.timestamp()) if isinstance(value, datetime) else value for name, value in said.items()}
