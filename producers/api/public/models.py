"""What can be asked for."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Response

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

    def add_to(self, app: FastAPI) -> None:
        app.get("/v1/models", responses=documents.shown(ModelList), tags=["models"])(self.list_models)
        app.get("/v1/models/{model:path}", responses=documents.shown(Model), tags=["models"])(self.get_model)

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
