"""What a stack remembers at its home, its ports and its secrets, and so where its servers answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from headwater.rules.errors import NotFound
from headwater.stack.addresses import Addresses
from headwater.stack.description import Ports, program
from headwater.stack.secrets import Secrets

LOOPBACK = "127.0.0.1"
ROLE = DATABASE = "headwater"
"""PostgreSQL's, for the catalog."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stack keeps its state, where it listens, and the secrets it made for itself."""

    home: Path
    ports: Ports
    secrets: Secrets

    @classmethod
    def of(cls, home: Path) -> Place:
        """Raises NotFound where there has never been a stack."""
        try:
            ports = Ports(**json.loads(ports_path(home).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise NotFound(
                f"There is no stack at {home}.",
                advice="Start one with `headwater up`, or set HEADWATER_KAFKA, HEADWATER_POSTGRES, HEADWATER_S3 and "
                "HEADWATER_LAKEFS.",
            ) from None
        return cls(home, ports, Secrets.of(home))

    def addresses(self) -> Addresses:
        """Where clients reach the four servers."""
        ports, secrets, s3 = self.ports, self.secrets, program("s3").options
        return Addresses(
            kafka=f"{LOOPBACK}:{ports.kafka}",
            postgres=f"postgresql://{ROLE}:{secrets.postgres_password}@{LOOPBACK}:{ports.postgres}/{DATABASE}",
            s3=f"http://{secrets.s3_access_key}:{secrets.s3_secret_key}@{LOOPBACK}:{ports.s3}"
            f"/{s3['bucket']}?region={s3['region']}",
            lakefs=f"http://{secrets.lakefs_access_key}:{secrets.lakefs_secret_key}@{LOOPBACK}:{ports.lakefs}",
        )


def ports_path(home: Path) -> Path:
    return home / "ports.json"


def stack_home(state_folder: Path) -> Path:
    """Where the local stack of a state folder keeps its own state."""
    return state_folder / "stack"


def local_variables(state_folder: Path) -> dict[str, str]:
    """The addresses of the local stack that was started in this state folder, and the keys that it made for peers,
    workers and its own tenant, as variables; empty if none ever was."""
    try:
        place = Place.of(stack_home(state_folder).expanduser().resolve())
    except NotFound:
        return {}
    keys = {
        "HEADWATER_PEER__KEY": place.secrets.peer_key,
        "HEADWATER_WORKER__KEY": place.secrets.worker_key,
        "HEADWATER_CLIENT__KEY": place.secrets.api_key,
    }
    return {**place.addresses().environment(), **keys}
