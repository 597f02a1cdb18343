"""What is asked for is refused before anything is written, with what to do."""

from typing import Any

import pytest

from headwater.producers.caster.order import Order
from headwater.rules.cast.chunks import MIB
from headwater.rules.errors import BadSettings

GOOD: dict[str, Any] = {
    "name": "llama-70b.v3", "file_name": "model.bin", "targets": ("a", "rack:r1"), "origin": "h", "expires_seconds": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "-x", "a/b", "a b", "a" * 101, "naïve", "a\n", "7", "2026"])
def test_a_name_that_is_no_part_of_a_file_name_is_refused(name):
    with pytest.raises(BadSettings, match="cannot name a cast"):
        Order(**GOOD | {"name": name})


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b", "\udcff.bin", ".headwater-cast", "x" * 256])
def test_a_file_name_that_leads_elsewhere_or_is_no_text_is_refused(name):
    with pytest.raises(BadSettings, match="peers cannot call the file") as refused:
        Order(**GOOD | {"file_name": name})
    assert "--as" in refused.value.advice


@pytest.mark.parametrize("target", ["", "rack:", "a,b"])
def test_a_target_that_names_nobody_is_refused(target):
    with pytest.raises(BadSettings, match="is no target"):
        Order(**GOOD | {"targets": ("a", target)})


def test_a_host_whose_name_would_be_that_of_an_origin_is_refused():
    with pytest.raises(BadSettings, match="cannot name this host"):
        Order(**GOOD | {"origin": "a/7"})


def test_a_cast_that_is_over_before_it_begins_is_refused():
    with pytest.raises(BadSettings, match="expire at once"):
        Order(**GOOD | {"expires_seconds": 0})


def test_the_chunk_is_chosen_by_the_size_unless_it_is_ordered():
    assert Order(**GOOD).chunks(10**11).chunk_bytes == 16 * MIB
    assert Order(**GOOD | {"chunk_bytes": 64 * MIB}).chunks(10**11).count == 1_491
