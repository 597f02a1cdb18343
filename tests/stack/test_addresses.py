from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.errors import BadSettings
from headwater.stack.addresses import Addresses, from_environment, mask

words = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)

ADDRESSES = Addresses(
    kafka="one:9092,two:9092",
    postgres="postgresql://role:PASSWORD@db:5432/catalog",
    s3="http://ACCESS:SECRET@s3:7070/bucket?region=eu-west-1",
    lakefs="http://KEY:TOPSECRET@lakefs:8000",
)


def test_no_secret_is_in_the_representation() -> None:
    shown = repr(ADDRESSES) + str(ADDRESSES) + str(ADDRESSES.masked())
    assert "PASSWORD" not in shown
    assert "SECRET" not in shown
    assert "postgresql://role:***@db:5432/catalog" in shown
    assert "http://ACCESS:***@s3:7070/bucket?region=eu-west-1" in shown


@given(user=words, secret=st.text("ABCDEFGHIJ@:", min_size=3, max_size=12), host=words, path=words)
def test_mask_hides_the_whole_secret_and_nothing_else(user: str, secret: str, host: str, path: str) -> None:
    assert mask(f"http://{user}:{secret}@{host}:80/{path}?region=x") == f"http://{user}:***@{host}:80/{path}?region=x"


@given(host=words, port=st.integers(1, 65535))
def test_mask_leaves_an_address_without_credentials_as_it_is(host: str, port: int) -> None:
    assert mask(f"{host}:{port}") == f"{host}:{port}"


def test_a_process_that_gets_the_environment_finds_the_same_addresses() -> None:
    assert Addresses(**from_environment(ADDRESSES.environment())) == ADDRESSES


def test_only_what_is_set_is_used() -> None:
    assert from_environment({"HEADWATER_KAFKA": "broker:9092", "HEADWATER_S3": "", "OTHER": "x"}) == {
        "kafka": "broker:9092"
    }


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HEADWATER_POSTGRES", "host=db password=HIDDEN"),
        ("HEADWATER_S3", "s3://key:HIDDEN@bucket"),
        ("HEADWATER_LAKEFS", "key:HIDDEN@lakefs:8000"),
    ],
)
def test_an_address_of_another_form_is_refused_by_name(variable: str, value: str) -> None:
    with pytest.raises(BadSettings, match=variable):
        from_environment({variable: value})
