from __future__ import annotations

import pytest

from headwater.connectors.s3.config import S3Config
from headwater.rules.errors import BadSettings


def test_an_address_says_everything() -> None:
    config = S3Config.from_url("http://key:se%2Fcret@10.0.0.1:7070/films?region=eu-west-1")
    assert (config.endpoint, config.bucket, config.region) == ("http://10.0.0.1:7070", "films", "eu-west-1")
    assert (config.access_key_id, config.secret_access_key) == ("key", "se/cret")


def test_without_keys_the_chain_of_the_sdk_is_used() -> None:
    config = S3Config.from_url("s3://films?region=eu-west-1")
    assert (config.bucket, config.region) == ("films", "eu-west-1")
    assert config.endpoint is None
    assert config.access_key_id is None
    assert S3Config.from_url("https://s3.example.org/films").access_key_id is None


def test_an_ipv6_address_keeps_its_brackets() -> None:
    assert S3Config.from_url("http://a:b@[::1]:7070/films").endpoint == "http://[::1]:7070"


@pytest.mark.parametrize("url", ["", "films", "http://host:1/", "http://host/a/b", "ftp://host/films", "s3://"])
def test_an_address_that_lacks_something_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(BadSettings, match="HEADWATER_S3"):
        S3Config.from_url(url)


def test_secrets_are_not_shown() -> None:
    shown = repr(S3Config.from_url("http://key:hush@host:1/films"))
    assert "hush" not in shown
    assert "films at http://host:1" in shown
