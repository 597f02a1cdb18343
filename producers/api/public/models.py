"""What can be asked for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from headwater.producers.api.problems import Kind, Problem
from headwater.producers.api.public import documents
from headwater.producers.api.public.answers import as_json
from headwater.producers.api.public.service import Service
from headwater.producers.api.public.shapes import Model, ModelList
from headwater.rules.jobs.capabilities import Capabilities


class Models:
    """The routes."""

    def __init__(self, service: Service) -> None:
        self._market = service.market
        self.router = APIRouter(prefix="/v1/models", tags=["models"])
        self.router.get("", responses=documents.shown(ModelList))(self.list_models)
        self.router.get("/{model:path}", responses=documents.shown(Model))(self.get_model)

    def list_models(self) -> Response:
        """Every model that a worker ever offered here, with what it takes."""
        models = self._market.offers().models
        data = [_model(name, next(iter(pools.values()))) for name, pools in sorted(models.items())]
        return as_json({"object": "list", "data": data})

    def get_model(self, model: str) -> Response:
        """One model. Its name may hold slashes."""
        pools = self._market.offers().models.get(model)
        if not pools:
            raise Problem(Kind.not_found, "No worker offers such a model.")
        return as_json(_model(model, next(iter(pools.values()))))


def _model(name: str, capabilities: Capabilities) -> dict[str, Any]:
    """The shape ``Model``. Where pools differ in what they can, the first one speaks; a request may go to any."""
    return {
        "id": name,
        "object": "model",
        "sizes": list(capabilities.sizes),
        "max_seconds": capabilities.max_seconds,
        "max_prompt": capabilities.max_prompt,
        "input": capabilities.input,
        "parameters": dict(capabilities.parameters),
    }
