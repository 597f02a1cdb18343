"""What the handlers of the public API share."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.s3.store import ObjectStore
from headwater.connectors.web.config import WebConfig
from headwater.producers.api.config import ApiConfig
from headwater.producers.api.public.fanout import Fanout
from headwater.producers.api.public.keys import Callers
from headwater.producers.api.public.offers import Market


@dataclass(frozen=True, slots=True)
class Service:
    """Each part is safe for threads."""

    config: ApiConfig
    database: JobsDatabase
    objects: ObjectStore
    web: WebConfig
    callers: Callers
    market: Market
    fanout: Fanout

    def address(self, path: str) -> str:
        """Of one of our paths, as clients see it: relative to what they asked, if we are not told what that is."""
        return (self.config.public_url or "").rstrip("/") + path
