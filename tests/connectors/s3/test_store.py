"""The client of S3 against a real server: what is stored, what is refused, and how a refusal reads."""

from __future__ import annotations

import base64
import hashlib
import random
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore, PutOutcome
from headwater.rules.errors import Corrupt, NotFound, Refused, Unavailable

PART = 5 * 1024 * 1024


@pytest.fixture
def store(bucket: str) -> ObjectStore:
    return ObjectStore(S3Config.from_url(bucket))


@pytest.mark.parametrize("data", [b"", b"light", random.Random(1).randbytes(9 * 1024 * 1024)])
def test_a_whole_object_comes_back_as_it_was(store: ObjectStore, data: bytes) -> None:
    assert store.put_whole("objects/ab/x.1", data) is PutOutcome.stored
    assert store.get("objects/ab/x.1") == data
    assert b"".join(store.chunks("objects/ab/x.1")) == data
    head = store.head("objects/ab/x.1")
    assert head is not None
    assert head.size == len(data)


def test_an_object_is_created_once_and_never_overwritten(store: ObjectStore) -> None:
    store.put_whole("x", b"light")
    assert store.put_whole("x", b"other") is PutOutcome.already_there
    assert store.get("x") == b"light"


def test_the_server_keeps_the_sha256_of_a_whole_object(store: ObjectStore) -> None:
    store.put_whole("x", b"light")
    config = store.config
    client = boto3.client(
        "s3",
        endpoint_url=config.endpoint,
        region_name=config.region,
        aws_access_key_id=config.access_key_id,
        aws_secret_access_key=config.secret_access_key,
    )
    head = client.head_object(Bucket=config.bucket, Key="x", ChecksumMode="ENABLED")
    client.close()
    assert head["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(b"light").digest()).decode()


def test_small_content_is_written_again_without_complaint(store: ObjectStore) -> None:
    store.put("manifests/x", b"rows")
    store.put("manifests/x", b"rows")
    assert store.get("manifests/x") == b"rows"


@pytest.mark.parametrize("size", [0, 1_000, 23 * 1024 * 1024])
def test_a_file_of_any_size_comes_back_and_may_be_sent_again(store: ObjectStore, tmp_path: Path, size: int) -> None:
    data = random.Random(size).randbytes(size)
    path = tmp_path / "video"
    path.write_bytes(data)
    for _ in range(2):
        store.put_file("r/video_1/1/video.mp4", path)
        assert store.get("r/video_1/1/video.mp4") == data
    with pytest.raises(FileNotFoundError):
        store.put_file("x", tmp_path / "nothing")


def test_ranges(store: ObjectStore) -> None:
    store.put_whole("x", b"0123456789")
    assert store.read_range("x", 3, 4) == b"3456"
    assert store.read_range("x", 8, 4) == b"89"
    with pytest.raises(NotFound):
        store.read_range("x", 10, 1)


def test_what_is_not_there(store: ObjectStore) -> None:
    assert store.head("x") is None
    with pytest.raises(NotFound):
        store.get("x")
    with pytest.raises(NotFound):
        list(store.chunks("x"))


@pytest.mark.parametrize("key", ["a" * 200 + "/" + "b" * 200, "ü/日本/😀", "a%2Fb", "with space ", "a+b=c&d?e#f"])
def test_keys_of_any_shape_come_back(store: ObjectStore, key: str) -> None:
    store.put_whole(key, b"light")
    assert store.get(key) == b"light"
    upload = store.create_multipart(key + "2")
    assert store.find_multiparts(key + "2") == [upload]


def test_parts_make_one_object(store: ObjectStore) -> None:
    first, second = random.Random(2).randbytes(PART), b"tail"
    upload = store.create_multipart("x")
    other = store.create_multipart("x2")
    assert store.find_multiparts("x") == [upload], "a longer key with the same beginning is another key"
    etags = {1: store.upload_part("x", upload, 1, first), 2: store.upload_part("x", upload, 2, second)}
    assert {number: part.etag for number, part in store.list_parts("x", upload).items()} == etags
    assert [part.size for part in store.list_parts("x", upload).values()] == [PART, 4]
    store.complete_multipart("x", upload, etags)
    assert store.get("x") == first + second
    store.abort_multipart("x2", other)
    store.abort_multipart("x2", other)
    assert store.find_multiparts("x2") == []
    for ended in (lambda: store.list_parts("x2", other), lambda: store.upload_part("x2", other, 1, b"late")):
        with pytest.raises(NotFound):
            ended()


def test_the_server_refuses_a_whole_object_whose_bytes_changed_on_the_way(
    flipped: S3Config, store: ObjectStore
) -> None:
    with pytest.raises(Corrupt, match="do not match their checksum"):
        ObjectStore(flipped).put_whole("x", b"flip this: a")
    assert store.head("x") is None


def test_the_server_refuses_a_part_whose_bytes_changed_on_the_way(flipped: S3Config, store: ObjectStore) -> None:
    upload = store.create_multipart("x")
    with pytest.raises(Corrupt, match="do not match their checksum"):
        ObjectStore(flipped).upload_part("x", upload, 1, b"flip this: a")
    assert store.list_parts("x", upload) == {}


@pytest.mark.parametrize(("access", "secret"), [("nobody", None), (None, "wrong-secret")])
def test_wrong_credentials_are_a_refusal_that_names_the_setting(
    bucket: str, access: str | None, secret: str | None
) -> None:
    right = S3Config.from_url(bucket)
    wrong = replace(
        right,
        access_key_id=access or right.access_key_id,
        secret_access_key=secret or right.secret_access_key,
    )
    store = ObjectStore(wrong)
    for attempt in (store.check_bucket, lambda: store.put_whole("x", b"light"), lambda: store.create_multipart("x")):
        with pytest.raises(Refused, match=r"refused the credentials.*HEADWATER_S3") as caught:
            attempt()
        assert secret is None or secret not in str(caught.value)


def test_a_bucket_that_is_not_there_is_a_refusal_until_it_is_created(bucket: str) -> None:
    config = S3Config.from_url(bucket)
    store = ObjectStore(replace(config, bucket=config.bucket + "x"))
    for attempt in (store.check_bucket, lambda: store.put_whole("x", b"light"), lambda: store.create_multipart("x")):
        with pytest.raises(Refused, match=r"bucket does not exist.*Create the bucket"):
            attempt()
    store.ensure_bucket()
    store.ensure_bucket()
    assert store.put_whole("x", b"light") is PutOutcome.stored


def test_a_server_that_does_not_answer_is_unavailable(bucket: str) -> None:
    store = ObjectStore(replace(S3Config.from_url(bucket), endpoint="http://127.0.0.1:1", attempts=1))
    for attempt in (
        lambda: store.put_whole("x", b"light"),
        lambda: store.create_multipart("x"),
        lambda: store.head("x"),
    ):
        with pytest.raises(Unavailable, match="does not answer"):
            attempt()


def test_sixteen_threads_share_one_client(store: ObjectStore) -> None:
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda number: store.put_whole(f"x{number % 50}", b"light"), range(100)))
    assert outcomes.count(PutOutcome.stored) == 50


def test_what_is_deleted_is_gone_and_may_be_deleted_again(store: ObjectStore) -> None:
    store.put("casts/1", b"light")
    for _ in range(2):
        store.delete("casts/1")
    assert store.head("casts/1") is None


def test_a_presigned_address_gives_ranges_to_anybody_while_it_is_valid(store: ObjectStore) -> None:
    store.put("casts/1", b"light travels")
    url = store.presigned("casts/1", 60)

    request = urllib.request.Request(url, headers={"Range": "bytes=6-8"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert (answer.status, answer.read()) == (206, b"tra")
    for wrong in (url.partition("?")[0], url.replace("casts/1", "casts/2")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(wrong, timeout=10)
        refused.value.close()


def test_a_presigned_address_is_never_valid_for_longer_than_a_week(store: ObjectStore) -> None:
    asked = parse_qs(urlsplit(store.presigned("casts/1", 30 * 86_400)).query)

    assert asked["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert asked["X-Amz-Expires"] == ["604800"]
