"""S3: immutable bytes under content-addressed keys. One client, few verbs, its errors mapped to ours."""

from __future__ import annotations

from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectHead, ObjectStore, PutOutcome, UploadedPart

__all__ = ["ObjectHead", "ObjectStore", "PutOutcome", "S3Config", "UploadedPart"]
