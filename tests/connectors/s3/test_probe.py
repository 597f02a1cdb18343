"""The probe against a real server, alone and behind one that lacks something; and what the store does then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import pytest

from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.mode import Answers, Checksums, Mode, choose, findings
from headwater.connectors.s3.probe import probe
from headwater.connectors.s3.store import ObjectStore, PutOutcome
from headwater.rules.errors import Corrupt, HeadwaterError, Refused, Unavailable

ALL = Answers(*[True] * 9)
Lesser = Callable[..., S3Config]


def test_versitygw_does_all_of_it_and_the_probe_leaves_nothing(bucket: str) -> None:
    config = S3Config.from_url(bucket)
    assert probe(config) == ALL
    listed = ObjectStore(config)._multipart.list_objects_v2(Bucket=config.bucket)
    assert listed.get("Contents", []) == []


@pytest.mark.parametrize(
    ("lacks", "no"),
    [
        ("conditional create", {"create_is_conditional"}),
        ("SHA-256", {"sha256_is_checked", "sha256_is_kept"}),
        ("checksum headers", {"sha256_is_checked", "sha256_is_kept"}),
        ("kept SHA-256", {"sha256_is_kept"}),
        ("Content-MD5", {"md5_is_checked"}),
        ("signed hash", {"signed_body_is_checked"}),
        ("ETags", {"etags_are_checked"}),
        ("chunks", {"chunks_are_decoded"}),
        ("long keys", {"keys_of_1024_bytes"}),
        ("control characters", {"control_characters_in_keys"}),
    ],
)
def test_what_a_server_lacks_is_found_and_nothing_else(lesser: Lesser, lacks: str, no: set[str]) -> None:
    answers = probe(lesser(lacks))
    assert {name for name, yes in asdict(answers).items() if not yes} == no
    assert {one.has for one in findings(answers) if one.means} == {False}
    assert len([one for one in findings(answers) if one.means]) == len(no)


def test_a_server_that_refuses_checksums_is_written_to_without_them(lesser: Lesser) -> None:
    config = lesser("checksum headers")
    with pytest.raises(HeadwaterError):
        ObjectStore(config).put_whole("x", b"light")
    mode = choose(probe(config), config.place)
    assert mode == Mode(checksums=Checksums.when_required)
    store = ObjectStore(config, mode)
    assert store.put_whole("x", b"light") is PutOutcome.stored
    assert store.put_whole("x", b"other") is PutOutcome.already_there
    assert store.get("x") == b"light"


def test_without_conditional_create_the_same_bytes_may_be_written_twice(lesser: Lesser) -> None:
    config = lesser("conditional create")
    mode = choose(probe(config), config.place)
    assert not mode.conditional_create
    store = ObjectStore(config, mode)
    assert [store.put_whole("x", b"light") for _ in range(2)] == [PutOutcome.stored] * 2
    assert store.get("x") == b"light"


def test_without_checksums_the_signature_still_keeps_damaged_bytes_out(bucket: str, flipped: S3Config) -> None:
    store = ObjectStore(flipped, Mode(checksums=Checksums.when_required))
    with pytest.raises(Corrupt, match="do not match their checksum"):
        store.put_whole("x", b"flip this: a")
    assert ObjectStore(S3Config.from_url(bucket)).head("x") is None


def test_a_server_that_could_replace_verified_bytes_unseen_is_refused(lesser: Lesser) -> None:
    config = lesser("conditional create", "signed hash")
    answers = probe(config)
    with pytest.raises(Refused, match="could be replaced by damaged bytes"):
        choose(answers, config.place)


@pytest.mark.parametrize("name", list(asdict(ALL)))
def test_one_missing_capability_alone_is_no_reason_to_stop(name: str) -> None:
    mode = choose(replace(ALL, **{name: False}), "films")
    assert mode.conditional_create == (name != "create_is_conditional")
    assert (mode.checksums is Checksums.when_supported) == (name != "sha256_is_checked")


def test_an_absent_server_a_wrong_key_and_an_absent_bucket_are_no_answers(bucket: str) -> None:
    config = replace(S3Config.from_url(bucket), attempts=1)
    with pytest.raises(Unavailable):
        probe(replace(config, endpoint="http://127.0.0.1:1"))
    with pytest.raises(Refused, match="credentials"):
        probe(replace(config, secret_access_key="wrong"))
    with pytest.raises(Refused, match="bucket does not exist"):
        probe(replace(config, bucket=config.bucket + "x"))
