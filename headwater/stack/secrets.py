"""The secrets that a local stack makes for itself, once, readable by its owner only."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    postgres_password: str
    s3_access_key: str
    s3_secret_key: str
    lakefs_access_key: str
    lakefs_secret_key: str
    lakefs_encryption_key: str
    peer_key: str
    """What the peers of casts share that meet on this stack's Kafka."""
    worker_key: str
    """What workers show to the endpoint of this stack's jobs."""
    api_key: str
    """The API key of the tenant `local`, which `headwater up` makes."""

    @classmethod
    def of(cls, home: Path) -> Secrets:
        """The secrets of the stack at ``home``, made on the first call. One that an older release did not know is made
        then, and the others stay."""
        path = home / "secrets.json"
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if missing := [field.name for field in fields(cls) if field.name not in kept]:
            fresh = asdict(cls._fresh())
            draft = path.with_suffix(f".{os.getpid()}")
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(kept | {name: fresh[name] for name in missing}, file)
            draft.rename(path)
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @classmethod
    def _fresh(cls) -> Secrets:
        # Letters and digits only: the values stand in URLs, DSNs and property files as they are.
        return cls(
            postgres_password=secrets.token_hex(16),
            s3_access_key=f"HW{secrets.token_hex(9).upper()}",
            s3_secret_key=secrets.token_hex(20),
            lakefs_access_key=f"AKIAJ{secrets.token_hex(7).upper()}Q",
            lakefs_secret_key=secrets.token_hex(20),
            lakefs_encryption_key=secrets.token_hex(32),
            peer_key=secrets.token_hex(32),
            worker_key=secrets.token_hex(32),
            api_key=f"hw_{secrets.token_urlsafe(32)}",
        )
