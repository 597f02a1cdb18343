"""Where tenants' URLs may lead, and how long they may take."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network

from headwater.rules.public_address import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class WebConfig:
    """Section ``[web]``: of all that tenants make us call, their webhooks and the inputs of their jobs."""

    allow_http: bool = False
    """Whether URLs without TLS are taken: for local trials, where receivers have no certificate."""
    allow_networks: tuple[str, ...] = ()
    """Networks that are not public and may be reached all the same, as ``10.20.0.0/16``. Whoever has an API key can
    then have us send requests to every port there."""
    connect_seconds: float = 5.0
    """Until a connection stands, of each address of a name."""
    answer_seconds: float = 20.0
    """For a whole webhook, from its connection to the answer's headers: 15 to 30 s, says the specification."""
    download_seconds: float = 300.0
    """For a whole input."""

    def __post_init__(self) -> None:
        self.networks()

    def networks(self) -> tuple[Network, ...]:
        """``allow_networks`` as networks. Raises ValueError for what is none."""
        return tuple(ip_network(network) for network in self.allow_networks)
