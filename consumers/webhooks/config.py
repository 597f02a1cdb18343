"""How many webhooks are under way at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhooksConfig:
    """Section ``[webhooks]`` of each sender."""

    threads: int = 128
    """POSTs at once. They wait nearly all of their time, and an endpoint that hangs holds a thread for 20 s."""
    tenant_posts: int = 32
    """POSTs at once for one tenant: whoever has many hosts that hang delays nobody else."""
    endpoint_posts: int = 16
    """POSTs at once to one endpoint that takes them well; one that does not gets fewer (rules/jobs/webhooks.py)."""
    look_seconds: float = 0.25
    """How often the catalog is asked where nothing happens: a webhook leaves so soon after its job ends."""
    drain_seconds: float = 25.0
    """How long a sender that is stopped waits for the answers that are under way."""

    def __post_init__(self) -> None:
        if not 1 <= self.endpoint_posts <= self.tenant_posts <= self.threads:
            raise ValueError("endpoint_posts is at most tenant_posts, which is at most threads, and none is below 1")
