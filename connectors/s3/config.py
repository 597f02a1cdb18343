"""Where the bucket is and who we are there."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from headwater.rules.errors import BadSettings


@dataclass(frozen=True, slots=True)
class S3Config:
    """One bucket of one S3 server."""

    bucket: str
    endpoint: str | None = None
    """Address of the server; None: AWS in ``region``."""
    region: str = "us-east-1"
    access_key_id: str | None = None
    """None, with ``secret_access_key``: the SDK's own chain (environment, profile, instance role)."""
    secret_access_key: str | None = None
    connections: int = 32
    """Requests at once of one process: 16 uploads, with room for the heads and reads beside them."""
    connect_seconds: float = 5.0
    request_seconds: float = 300.0
    """The longest that one request may take: 64 MiB at 1.8 Mbit/s, one of sixteen on a 30 Mbit/s uplink."""
    attempts: int = 4
    """Quick tries inside one call, over about two seconds. A longer outage is the caller's: it waits with backoff."""

    @classmethod
    def from_url(cls, url: str) -> S3Config:
        """``http://access:secret@host:port/bucket?region=us-east-1``, or ``s3://bucket`` for AWS with its own chain.

        Raises BadSettings naming what is missing.
        """
        parts = urlsplit(url)
        region = parse_qs(parts.query).get("region", ["us-east-1"])[0]
        if parts.scheme == "s3" and parts.netloc:
            return cls(bucket=parts.netloc, region=region)
        bucket = parts.path.strip("/")
        if parts.scheme not in ("http", "https") or not parts.hostname or not bucket or "/" in bucket:
            raise BadSettings(
                "an S3 address must look like http://access:secret@host:port/bucket?region=us-east-1, or s3://bucket",
                asked="The S3 address (HEADWATER_S3) was read.",
                advice="Correct it; quote special characters of the secret as %XX.",
            )
        port = f":{parts.port}" if parts.port else ""
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(
            bucket=bucket,
            endpoint=f"{parts.scheme}://{host}{port}",
            region=region,
            access_key_id=unquote(parts.username) if parts.username else None,
            secret_access_key=unquote(parts.password) if parts.password else None,
        )

    @property
    def place(self) -> str:
        """The bucket for logs and errors, without secrets."""
        return f"{self.bucket} at {self.endpoint or 'AWS ' + self.region}"

    def __repr__(self) -> str:
        key = "the SDK's chain" if self.access_key_id is None else self.access_key_id
        return f"S3Config({self.place!r}, access_key_id={key!r}, secret_access_key=***)"
