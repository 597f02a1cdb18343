"""The application on the public port."""

from __future__ import annotations

from fastapi import FastAPI, Response

from headwater.producers.api import problems
from headwater.producers.api.guard import Guard
from headwater.producers.api.problems import Kind, Problem
from headwater.producers.api.public import documents
from headwater.producers.api.public.answers import as_json
from headwater.producers.api.public.deliveries import Deliveries
from headwater.producers.api.public.events import Events
from headwater.producers.api.public.keys import Keys
from headwater.producers.api.public.measured import Measured
from headwater.producers.api.public.models import Models
from headwater.producers.api.public.service import Service
from headwater.producers.api.public.submission import Submissions
from headwater.producers.api.public.videos import Videos


def public_app(service: Service) -> FastAPI:
    """What it shares with others is in ``service``, whose parts somebody else starts and ends."""
    app = FastAPI(redirect_slashes=False, docs_url=None, redoc_url=None)
    problems.install(app)
    app.add_middleware(Keys, callers=service.callers)
    app.add_middleware(Guard, body_bytes=service.config.body_bytes)
    app.add_middleware(Measured)
    for part in (Submissions(service), Videos(service), Events(service), Deliveries(service), Models(service)):
        part.add_to(app)

    @app.get("/healthz", responses={200: {"description": "It serves."}})
    def get_health() -> Response:
        """For load balancers: 200 while requests can be answered, 503 while the catalog is away."""
        with service.database.quiet() as transaction:
            transaction.execute("SELECT 1")
        return as_json({"status": "ok"})

    @app.get("/problems/{slug}", responses={200: {"description": "What this type of problem means."}})
    async def get_problem_type(slug: str) -> Response:
        """A type of problem: what its address leads to."""
        for kind in Kind:
            if kind.slug == slug:
                return as_json({"type": kind.type, "title": kind.title, "status": kind.status})
        raise Problem(Kind.not_found, "There is no such type of problem.")

    documents.install(app)
    return app
