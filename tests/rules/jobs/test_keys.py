from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.jobs.keys import is_key, key_hash, key_hint, new_key


@given(st.binary(min_size=32, max_size=32))
def test_every_new_key_has_the_form_and_another_hash(random: bytes) -> None:
    key = new_key(random)
    assert len(key) == 46
    assert is_key(key)
    assert key_hash(key) != random
    assert len(key_hash(key)) == 32
    assert key.startswith(key_hint(key))


def test_a_key_is_base64url_of_its_bytes_without_padding() -> None:
    assert new_key(bytes(32)) == "hw_" + 43 * "A"
    assert new_key(bytes([0xFF]) * 32) == "hw_" + 42 * "_" + "8"


@pytest.mark.parametrize(
    "text", ["", "hw_", "hw_" + 42 * "a", "hw_" + 44 * "a", "HW_" + 43 * "a", "hw_" + 42 * "a" + "é"]
)
def test_what_is_no_key_is_told_by_its_form(text: str) -> None:
    assert not is_key(text)


def test_a_key_takes_32_random_bytes() -> None:
    with pytest.raises(ValueError, match="32 random bytes, not 16"):
        new_key(bytes(16))
