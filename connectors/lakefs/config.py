"""Where lakeFS is and who we are to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from headwater.rules.errors import BadSettings

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}\Z")


def check_repository_name(name: str, setting: str) -> None:
    """Raises BadSettings, naming the setting, for what lakeFS would not take as the name of a repository."""
    if not _REPOSITORY.match(name):
        raise BadSettings(
            f"{name!r} cannot name a lakeFS repository",
            asked=f"The setting {setting} was read.",
            advice="Use 3 to 63 lower-case letters, digits and hyphens, not beginning with a hyphen.",
        )


@dataclass(frozen=True, slots=True)
class LakeFSConfig:
    """``endpoint`` is the server's root, such as ``https://lakefs.example:8000``."""

    endpoint: str
    access_key_id: str
    secret_access_key: str
    request_seconds: float = 60.0
    """Longest wait for one answer: a commit of 500,000 staged paths was measured at minutes elsewhere, ours commit
    100,000 at a time; what takes longer is unclear, and the committer looks before it repeats."""
    connections: int = 32
    """Twice the links at once, so that a link never waits for a connection."""

    @classmethod
    def from_url(cls, url: str) -> LakeFSConfig:
        """Read ``http://key:secret@host:port``. Raises BadSettings naming what is missing, never the secret."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not parts.username or not parts.password:
            raise BadSettings(
                "the lakeFS address lacks its scheme, host, access key or secret key",
                advice="Set HEADWATER_LAKEFS to http://ACCESS_KEY:SECRET_KEY@HOST:PORT.",
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        port = f":{parts.port}" if parts.port else ""
        return cls(f"{parts.scheme}://{host}{port}", unquote(parts.username), unquote(parts.password))

    def __repr__(self) -> str:
        return f"LakeFSConfig({self.endpoint!r}, access_key_id={self.access_key_id!r}, secret_access_key='***')"
