"""The two client libraries, set up from one configuration."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import boto3
import boto3.session
from botocore.config import Config
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.store import S3Store

from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.mode import Checksums, Mode


def session_of(config: S3Config) -> boto3.session.Session:
    return boto3.session.Session(
        aws_access_key_id=config.access_key_id,
        aws_secret_access_key=config.secret_access_key,
        region_name=config.region,
    )


def object_client(config: S3Config, session: boto3.session.Session, mode: Mode) -> S3Store:
    """obstore's client of the bucket: whole objects and ranges."""
    options: dict[str, Any] = (
        {"credential_provider": Boto3CredentialProvider(session)}
        if config.access_key_id is None
        else {"access_key_id": config.access_key_id, "secret_access_key": config.secret_access_key}
    )
    if config.endpoint is not None:
        options["endpoint"] = config.endpoint
    if mode.checksums is Checksums.when_supported:
        options["checksum_algorithm"] = "SHA256"
    return S3Store(
        config.bucket,
        region=config.region,
        conditional_put="etag" if mode.conditional_create else "disabled",
        virtual_hosted_style_request=config.endpoint is None,
        client_options={
            "allow_http": True,
            "connect_timeout": timedelta(seconds=config.connect_seconds),
            "timeout": timedelta(seconds=config.request_seconds),
        },
        retry_config={"max_retries": config.attempts - 1, "retry_timeout": timedelta(seconds=config.request_seconds)},
        **options,
    )


def boto_client(config: S3Config, session: boto3.session.Session) -> Any:
    """boto3's client: multipart uploads, and what obstore has no word for."""
    return session.client("s3", endpoint_url=config.endpoint, config=_boto_config(config))


def _boto_config(config: S3Config) -> Config:
    return Config(
        connect_timeout=config.connect_seconds,
        read_timeout=config.request_seconds,
        retries={"mode": "standard", "total_max_attempts": config.attempts},
        max_pool_connections=config.connections,
        # The signature carries the body's SHA-256 and every server checks it. A second checksum, as the SDK would add,
        # makes some servers refuse the request, and would have to be kept per part until Complete.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        signature_version="s3v4",  # else presigned addresses are of version 2, which servers refuse
        s3={"addressing_style": "path" if config.endpoint else "auto", "payload_signing_enabled": True},
    )
