"""Where the four servers of a stack answer, with the credentials to talk to them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import urlsplit, urlunsplit

from headwater.rules.errors import BadSettings

VARIABLES = {
    "kafka": "HEADWATER_KAFKA",
    "postgres": "HEADWATER_POSTGRES",
    "s3": "HEADWATER_S3",
    "lakefs": "HEADWATER_LAKEFS",
}


@dataclass(frozen=True, slots=True, repr=False)
class Addresses:
    """One address a server. ``repr`` and ``masked`` hide what is secret in them.

    kafka:    ``host:port[,host:port]``
    postgres: ``postgresql://user:password@host:port/database``
    s3:       ``http://access:secret@host:port/bucket?region=us-east-1``
    lakefs:   ``http://key:secret@host:port``
    """

    kafka: str
    postgres: str
    s3: str
    lakefs: str

    def masked(self) -> dict[str, str]:
        return {field.name: mask(getattr(self, field.name)) for field in fields(self)}

    def environment(self) -> dict[str, str]:
        """The variables by which a process is told to use these servers. Holds the secrets."""
        return {VARIABLES[field.name]: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        return f"Addresses({', '.join(f'{name}={address!r}' for name, address in self.masked().items())})"


def mask(address: str) -> str:
    """The address with its password or secret key replaced by ``***``."""
    parts = urlsplit(address)
    if "@" not in parts.netloc:
        return address
    credentials, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{credentials.partition(':')[0]}:***@{host}"))


def from_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The addresses that the environment names, by program: those programs are used, not started.

    Raises:
        BadSettings: a variable does not hold the form that ``Addresses`` describes.
    """
    given = {name: environment[variable] for name, variable in VARIABLES.items() if environment.get(variable)}
    schemes = {"postgres": ("postgresql", "postgres"), "s3": ("http", "https"), "lakefs": ("http", "https")}
    for name, address in given.items():
        allowed = schemes.get(name)
        if allowed and urlsplit(address).scheme not in allowed:
            raise BadSettings(
                f"{VARIABLES[name]} is {mask(address)!r}, which does not start with {allowed[0]}://.",
                advice=f"Set it to an address like {EXAMPLES[name]}.",
            )
    return given


EXAMPLES = {
    "kafka": "broker-1:9092,broker-2:9092",
    "postgres": "postgresql://headwater:PASSWORD@db:5432/headwater",
    "s3": "https://ACCESS:SECRET@s3.example.org/bucket?region=us-east-1",
    "lakefs": "https://KEY:SECRET@lakefs.example.org",
}
