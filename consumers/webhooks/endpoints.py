"""Who may have how much under way: endpoints and tenants, as this sender knows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from headwater.connectors.jobs.deliveries import Delivery, Due
from headwater.consumers.webhooks.config import WebhooksConfig
from headwater.rules.jobs.webhooks import Endpoint

_REMEMBERED = 10_000
"""Endpoints: beyond it those are forgotten that neither rest nor have anything under way."""


class Endpoints:
    """For one thread. ``now`` is a monotonic clock."""

    def __init__(self, config: WebhooksConfig, random: Random) -> None:
        self._config = config
        self._random = random
        self._known: dict[str, Endpoint] = {}
        self._under_way: dict[str, Delivery] = {}
        self._of_endpoint: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def full(self, now: float) -> list[str]:
        """Endpoints that get nothing now: resting, or with all under way that they may have."""
        return [name for name in {*self._known, *self._of_endpoint} if self._room(name, now) <= 0]

    def full_tenants(self) -> list[str]:
        return [tenant for tenant, posts in self._of_tenant.items() if posts >= self._config.tenant_posts]

    def resting(self, now: float) -> dict[str, float]:
        """Seconds that each resting endpoint rests on."""
        return {name: one.rests_until - now for name, one in self._known.items() if one.rests_until > now}

    def choose(self, due: Sequence[Due], now: float) -> list[Due]:
        """As many of what is due as threads, tenants and endpoints have room for, in the order given."""
        threads = self._config.threads - self.under_way
        endpoints: Counter[str] = Counter()
        tenants: Counter[str] = Counter()
        chosen: list[Due] = []
        for one in due:
            if len(chosen) >= threads:
                break
            if (
                one.delivery not in self._under_way
                and endpoints[one.endpoint] < self._room(one.endpoint, now)
                and tenants[one.tenant] + self._of_tenant[one.tenant] < self._config.tenant_posts
            ):
                endpoints[one.endpoint] += 1
                tenants[one.tenant] += 1
                chosen.append(one)
        return chosen

    def started(self, delivery: Delivery) -> None:
        self._under_way[delivery.delivery] = delivery
        self._of_endpoint[delivery.endpoint] += 1
        self._of_tenant[delivery.tenant] += 1

    def ended(self, delivery: Delivery) -> None:
        del self._under_way[delivery.delivery]
        for counter, name in ((self._of_endpoint, delivery.endpoint), (self._of_tenant, delivery.tenant)):
            counter[name] -= 1
            if not counter[name]:
                del counter[name]

    def succeeded(self, name: str) -> None:
        self._known[name] = self._known.get(name, Endpoint()).succeeded()

    def failed(self, name: str, now: float) -> float | None:
        """Seconds that the endpoint rests from now on, where this failure opened its breaker."""
        after = self._known.get(name, Endpoint()).failed(now, self._random)
        self._known[name] = after
        if len(self._known) > _REMEMBERED:
            self._known = {
                known: one for known, one in self._known.items() if one.rests_until > now or known in self._of_endpoint
            }
        return after.rests_until - now if after.rests_until > now else None

    def _room(self, name: str, now: float) -> int:
        return self._known.get(name, Endpoint()).room(self._config.endpoint_posts, now) - self._of_endpoint[name]
