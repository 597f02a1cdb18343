"""What is known of a tenant's URL before anybody calls it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import idna

from headwater.connectors.web.config import WebConfig
from headwater.rules.errors import BadUrl
from headwater.rules.public_address import Network, literal_address, why_not_public

MOST_CHARACTERS = 2_048
_PORTS = {"https": 443, "http": 80}
_SAFE = "!$&'()*+,;=:@/?-._~%[]"
"""What a path or a query may hold as it is; all else is sent as %XX."""


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL that was checked: they are used as they are, and nobody parses it a second time."""

    scheme: str
    host: str
    """In ASCII and lower case, an IPv6 address without brackets."""
    port: int
    target: str
    """Path and query."""

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def check(url: str, config: WebConfig, *, field: str = "url") -> Url:
    """The parts of ``url`` where it may be called, as far as its text says; names are resolved when they are.

    Raises BadUrl that names the ``field`` and says what is wrong.
    """
    try:
        return _parts(url, config)
    except ValueError as error:
        raise BadUrl(
            f"{field} is not taken: {error}.",
            advice=f"Give {_schemes(config)} with a public host and no credentials.",
            field=field,
            url=url[:MOST_CHARACTERS],
        ) from error


def _parts(url: str, config: WebConfig) -> Url:
    if len(url) > MOST_CHARACTERS:
        raise ValueError(f"it has {len(url)} characters, more than {MOST_CHARACTERS}")
    if any(character <= " " or character in '\\\x7f"<>^`{|}' for character in url):
        raise ValueError("it holds a space, a control character or another that a URL may not hold")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or (parts.scheme == "http" and not config.allow_http):
        raise ValueError(f"its scheme is {parts.scheme!r}, not {_schemes(config)}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it holds credentials")
    if not parts.hostname:
        raise ValueError("it has no host")
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    if port == 0:
        raise ValueError("its port is 0")
    host = _host(parts.hostname, config.networks())
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    return Url(parts.scheme, host, port, target)


def _host(host: str, allowed: Sequence[Network]) -> str:
    address = literal_address("127.0.0.1" if _is_local_name(host) else host)
    if address is not None:
        if what := why_not_public(address, allowed):
            raise ValueError(f"its host {host} is {what}")
        return host
    try:
        return idna.encode(host.rstrip("."), uts46=True).decode()
    except idna.IDNAError as error:
        raise ValueError(f"its host {host!r} is no name: {error}") from error


def _is_local_name(host: str) -> bool:
    """RFC 6761: this one host, whatever a resolver says."""
    return host.rstrip(".").rpartition(".")[2] == "localhost"


def _schemes(config: WebConfig) -> str:
    return "https or http" if config.allow_http else "https"
