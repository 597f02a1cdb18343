"""The bucket as a store of immutable objects: whole objects through obstore, multipart uploads through boto3.

obstore's blocking calls release the GIL and share one Rust runtime: sixteen threads of them put as many files a
second as its asyncio form (1,030-1,130 against 880-1,110 of 100 KiB, two cores shared with the server), so there is
no event loop here. It hashes what it sends (``checksum_algorithm``), and the server refuses other bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import obstore
import obstore.exceptions

from headwater.connectors.s3.clients import boto_client, object_client, session_of
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.errors import mapped
from headwater.connectors.s3.mode import Mode
from headwater.rules.errors import Corrupt, NotFound

CHUNK_BYTES = 8 * 1024 * 1024
"""What ``chunks`` yields at least, but for the last: large enough that hashing one releases the GIL for long."""

PRESIGNED_SECONDS = 7 * 86_400
"""The longest that a signature may be valid (AWS Signature Version 4)."""


class PutOutcome(StrEnum):
    stored = "stored"
    already_there = "already there"
    """The key exists. That says nothing about its bytes: verify judges them."""


@dataclass(frozen=True, slots=True)
class ObjectHead:
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """A part that the server holds of an unfinished multipart upload, since ``sent``. ``number`` counts from 1."""

    number: int
    size: int
    etag: str
    sent: datetime


@dataclass(frozen=True, slots=True)
class Multipart:
    """An unfinished multipart upload. ``begun``, by the server's clock."""

    key: str
    upload_id: str
    begun: datetime


class ObjectStore:
    """One bucket. Safe for threads. Every method raises Unavailable, Refused, and what its docstring names."""

    def __init__(self, config: S3Config, mode: Mode = Mode()) -> None:  # noqa: B008  # frozen
        """``mode``: what the server can, from ``probe``. The default is what AWS S3 can."""
        self.config = config
        self.mode = mode
        self._create: Literal["create", "overwrite"] = "create" if mode.conditional_create else "overwrite"
        session = session_of(config)
        self._objects = object_client(config, session, mode)
        self._multipart: Any = boto_client(config, session)

    def ensure_bucket(self) -> None:
        """Create the bucket if it is not there."""
        with mapped(self.config, "Create the bucket"):
            try:
                place = {} if self.config.region == "us-east-1" else {"LocationConstraint": self.config.region}
                options = {"CreateBucketConfiguration": place} if place else {}
                self._multipart.create_bucket(Bucket=self.config.bucket, **options)
            except (
                self._multipart.exceptions.BucketAlreadyOwnedByYou,
                self._multipart.exceptions.BucketAlreadyExists,
            ):
                self._multipart.head_bucket(Bucket=self.config.bucket)

    def check_bucket(self) -> None:
        """Called at the start of every process that needs it. Raises Refused or Unavailable."""
        with mapped(self.config, "Look into the bucket"):  # a HEAD would be refused without saying why
            self._multipart.list_objects_v2(Bucket=self.config.bucket, MaxKeys=1)

    # Whole objects

    def put_whole(self, key: str, data: bytes) -> PutOutcome:
        """Create an object in one request, never over another. Raises Corrupt when other bytes arrived.

        On a server without conditional create the same bytes may be written over themselves: never others, as the key
        names the bytes and the signature keeps others out.
        """
        try:
            with mapped(self.config, f"PUT {key}"):
                obstore.put(self._objects, key, data, mode=self._create, use_multipart=False)
        except Exception as error:
            if isinstance(error.__cause__, obstore.exceptions.AlreadyExistsError):
                return PutOutcome.already_there
            raise
        return PutOutcome.stored

    def put(self, key: str, data: bytes) -> None:
        """Write small content whose key follows from its bytes (a manifest): writing it again changes nothing."""
        with mapped(self.config, f"PUT {key}"):
            obstore.put(self._objects, key, data, use_multipart=False)

    def put_file(self, key: str, path: Path) -> None:
        """Write a file of any size whose key has one writer; a large one goes in parts. Repeated it changes nothing.

        Raises Corrupt when other bytes arrived, OSError where the file cannot be read.
        """
        with path.open("rb") as file, mapped(self.config, f"PUT {key}"):
            obstore.put(self._objects, key, file)

    def head(self, key: str) -> ObjectHead | None:
        """Size and ETag, or None where there is no such key."""
        try:
            with mapped(self.config, f"HEAD {key}"):
                meta = obstore.head(self._objects, key)
        except NotFound:
            return None
        return ObjectHead(size=meta["size"], etag=meta["e_tag"] or "")

    def get(self, key: str) -> bytes:
        """The whole object. Raises NotFound."""
        with mapped(self.config, f"GET {key}"):
            return bytes(obstore.get(self._objects, key).bytes())

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer where the object ends before. Raises NotFound."""
        with mapped(self.config, f"GET {key} bytes {offset}-{offset + length - 1}"):
            return bytes(obstore.get_range(self._objects, key, start=offset, length=length))

    def chunks(self, key: str) -> Iterator[bytes]:
        """The object from first to last byte in pieces of ``CHUNK_BYTES`` or more. Raises NotFound."""
        with mapped(self.config, f"GET {key}"):
            for chunk in obstore.get(self._objects, key).stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)

    def list_keys(self, prefix: str) -> list[str]:
        """Every key that begins so. For prefixes below which there are few."""
        with mapped(self.config, f"List {prefix}"):
            pages = self._multipart.get_paginator("list_objects_v2").paginate(Bucket=self.config.bucket, Prefix=prefix)
            return [one["Key"] for page in pages for one in page.get("Contents", ())]

    def delete(self, key: str) -> None:
        """Nothing happens where there is no such key."""
        with mapped(self.config, f"DELETE {key}"):
            self._multipart.delete_object(Bucket=self.config.bucket, Key=key)

    def presigned(self, key: str, seconds: float) -> str:
        """An address at which anybody may GET the object, by ranges too, for so long; at most ``PRESIGNED_SECONDS``.

        It says nothing of whether the object is there.
        """
        with mapped(self.config, f"Presign {key}"):
            url = self._multipart.generate_presigned_url(
                "get_object",
                Params={"Bucket": self.config.bucket, "Key": key},
                ExpiresIn=int(min(max(1.0, seconds), PRESIGNED_SECONDS)),
            )
        return str(url)

    # Multipart uploads

    def create_multipart(self, key: str) -> str:
        """Begin an upload; returns its id."""
        with mapped(self.config, f"Begin a multipart upload of {key}"):
            answer = self._multipart.create_multipart_upload(Bucket=self.config.bucket, Key=key)
        return str(answer["UploadId"])

    def find_multiparts(self, key: str) -> list[str]:
        """Ids of the unfinished uploads of exactly this key, in order."""
        return sorted(one.upload_id for one in self.list_multiparts(key) if one.key == key)

    def list_multiparts(self, prefix: str) -> list[Multipart]:
        """The unfinished uploads of every key with this prefix. (MinIO shows those of a key only for the whole key.)"""
        with mapped(self.config, f"List the multipart uploads of {prefix}"):
            pages = self._multipart.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.config.bucket, Prefix=prefix
            )
            return [
                Multipart(upload["Key"], upload["UploadId"], upload["Initiated"])
                for page in pages
                for upload in page.get("Uploads", ())
            ]

    def list_parts(self, key: str, upload_id: str) -> dict[int, UploadedPart]:
        """What the server holds of an upload, by part number. Raises NotFound when it ended or never was."""
        with mapped(self.config, f"List the parts of {key}"):
            pages = self._multipart.get_paginator("list_parts").paginate(
                Bucket=self.config.bucket, Key=key, UploadId=upload_id
            )
            return {
                part["PartNumber"]: UploadedPart(part["PartNumber"], part["Size"], part["ETag"], part["LastModified"])
                for page in pages
                for part in page.get("Parts", ())
            }

    def upload_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Send one part (``number`` from 1); returns its ETag. Raises NotFound, Corrupt when other bytes arrived."""
        with mapped(self.config, f"PUT part {number} of {key}"):
            answer = self._multipart.upload_part(
                Bucket=self.config.bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=data
            )
        return str(answer["ETag"])

    def complete_multipart(self, key: str, upload_id: str, etags: Mapping[int, str]) -> None:
        """Make the object of its parts (ETags by number). After an Unavailable look with ``head``: it may be there."""
        parts = [{"PartNumber": number, "ETag": etags[number]} for number in sorted(etags)]
        with mapped(self.config, f"Complete the multipart upload of {key}"):
            answer = self._multipart.complete_multipart_upload(
                Bucket=self.config.bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": parts}
            )
        if "ETag" not in answer:  # S3 may answer 200 and an error in the body
            raise Corrupt(f"S3 completed {key} without naming what it stored: {answer}.")

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """Give up an upload and its parts; nothing happens where it is gone already."""
        try:
            with mapped(self.config, f"Abort the multipart upload of {key}"):
                self._multipart.abort_multipart_upload(Bucket=self.config.bucket, Key=key, UploadId=upload_id)
        except NotFound:
            return
