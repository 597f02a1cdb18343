"""The start-up probe: asks a server, with one tiny object a question, what it does rather than what it claims.

Everything is written below ``.headwater-probe/`` under a random name and removed again. A refusal (a 4xx) is an answer;
credentials, an absent bucket or an absent server are errors as everywhere.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from headwater.connectors.s3.clients import boto_client, session_of
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.errors import mapped
from headwater.connectors.s3.mode import Answers

_BODY = b"headwater asks"
_OTHER = b"headwater lies"  # as long as the body: only a checksum tells them apart
_FOLDER = ".headwater-probe"


def probe(config: S3Config) -> Answers:
    """About twenty small requests. Raises Unavailable, Refused."""
    with _Probe(config) as asked:
        asked.plain_put()
        return Answers(
            sha256_is_checked=asked.sha256_is_checked(),
            sha256_is_kept=asked.sha256_is_kept(),
            md5_is_checked=asked.md5_is_checked(),
            signed_body_is_checked=asked.signed_body_is_checked(),
            create_is_conditional=asked.create_is_conditional(),
            etags_are_checked=asked.etags_are_checked(),
            chunks_are_decoded=asked.chunks_are_decoded(),
            keys_of_1024_bytes=asked.holds_key(_long(asked.prefix)),
            control_characters_in_keys=asked.holds_key(f"{asked.prefix}/a\bb"),
        )


class _Probe:
    """One method a question. A context manager: what it wrote is removed at the end."""

    def __init__(self, config: S3Config) -> None:
        self.prefix = f"{_FOLDER}/{uuid.uuid4().hex}"
        self._config = config
        self._written: set[str] = set()

    def __enter__(self) -> _Probe:
        self._client: Any = boto_client(self._config, session_of(self._config))
        return self

    def __exit__(self, *_: object) -> None:
        for key in self._written:
            self._accepted(partial(self._client.delete_object, Bucket=self._config.bucket, Key=key))
        self._client.close()

    def plain_put(self) -> None:
        """Raises what stands in the way of any write, so that no refusal after it is taken for an answer."""
        with mapped(self._config, "Probe the server with a plain PUT"):
            self._put("plain")

    def sha256_is_checked(self) -> bool:
        right, wrong = (_base64(hashlib.sha256(body).digest()) for body in (_BODY, _OTHER))
        taken = self._accepted(lambda: self._put("sha256", ChecksumSHA256=right))
        return taken and not self._accepted(lambda: self._put("sha256-wrong", ChecksumSHA256=wrong))

    def sha256_is_kept(self) -> bool:
        """Of the object that ``sha256_is_checked`` wrote."""
        kept: list[object] = []

        def look() -> None:
            head = self._client.head_object(
                Bucket=self._config.bucket, Key=f"{self.prefix}/sha256", ChecksumMode="ENABLED"
            )
            kept.append(head.get("ChecksumSHA256"))

        return self._accepted(look) and kept == [_base64(hashlib.sha256(_BODY).digest())]

    def md5_is_checked(self) -> bool:
        wrong = _base64(hashlib.md5(_OTHER, usedforsecurity=False).digest())
        return not self._accepted(lambda: self._put("md5", ContentMD5=wrong))

    def signed_body_is_checked(self) -> bool:
        def lie(request: Any, **_: object) -> None:
            request.body = _OTHER

        with self._hooked("before-send.s3.PutObject", lie):
            return not self._accepted(lambda: self._put("signed"))

    def create_is_conditional(self) -> bool:
        """Judged by what is there afterwards: a server may also answer 200 and keep the old object."""
        self._accepted(lambda: self._put("create", IfNoneMatch="*"))
        self._accepted(lambda: self._put("create", Body=_OTHER, IfNoneMatch="*"))
        return self._read("create") == _BODY

    def etags_are_checked(self) -> bool:
        place = {"Bucket": self._config.bucket, "Key": f"{self.prefix}/parts"}
        self._written.add(place["Key"])
        with mapped(self._config, "Probe multipart uploads"):
            upload = self._client.create_multipart_upload(**place)["UploadId"]
            self._client.upload_part(**place, UploadId=upload, PartNumber=1, Body=_BODY)
        parts = [{"PartNumber": 1, "ETag": f'"{hashlib.md5(_OTHER, usedforsecurity=False).hexdigest()}"'}]
        completed = self._accepted(
            lambda: self._client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})
        )
        if not completed:
            self._accepted(lambda: self._client.abort_multipart_upload(**place, UploadId=upload))
        return not completed

    def chunks_are_decoded(self) -> bool:
        """The SDK frames a body where its checksum comes behind it, which it does by itself over https only."""

        def frame(params: Any, **_: object) -> None:
            trailer = {"algorithm": "crc32", "in": "trailer", "name": "x-amz-checksum-crc32"}
            params["context"]["checksum"] = {"request_algorithm": trailer}

        with self._hooked("before-call.s3.PutObject", frame):
            return self._accepted(lambda: self._put("chunks")) and self._read("chunks") == _BODY

    def holds_key(self, key: str) -> bool:
        return self._accepted(lambda: self._put_at(key)) and self._read_at(key) == _BODY

    def _put(self, name: str, **options: object) -> None:
        self._put_at(f"{self.prefix}/{name}", **options)

    def _put_at(self, key: str, **options: object) -> None:
        self._written.add(key)
        self._client.put_object(**{"Bucket": self._config.bucket, "Key": key, "Body": _BODY, **options})

    def _read(self, name: str) -> bytes:
        return self._read_at(f"{self.prefix}/{name}")

    def _read_at(self, key: str) -> bytes:
        found: list[bytes] = []

        def read() -> None:
            found.append(self._client.get_object(Bucket=self._config.bucket, Key=key)["Body"].read())

        return found[0] if self._accepted(read) else b""

    def _accepted(self, request: Callable[[], object]) -> bool:
        """Whether the server did it; a refusal of the request as such is no error. Raises Unavailable."""
        with mapped(self._config, "Probe the server"):
            try:
                request()
            except ClientError as error:
                status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
                if 400 <= status < 500 or status == 501:  # 501: a header that it does not know
                    return False
                raise
            return True

    @contextmanager
    def _hooked(self, event: str, handler: Callable[..., None]) -> Iterator[None]:
        self._client.meta.events.register(event, handler)
        try:
            yield
        finally:
            self._client.meta.events.unregister(event, handler)


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def _long(prefix: str) -> str:
    """A key of 1,024 bytes below ``prefix``, in segments that a folder could hold."""
    filler = "/".join(["k" * 200] * 6)
    return f"{prefix}/{filler}"[:1024]
