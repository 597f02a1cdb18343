from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.jobs.ids import is_job, new_job

_RANDOM = st.binary(min_size=10, max_size=10)


@given(st.integers(0, 2**48 - 1), _RANDOM)
def test_an_id_is_a_uuid_of_version_7_at_its_time(unix_ms: int, random: bytes) -> None:
    job = new_job(unix_ms, random)
    number = uuid.UUID(job.removeprefix("video_"))
    assert (number.version, number.variant) == (7, uuid.RFC_4122)
    assert number.int >> 80 == unix_ms
    assert is_job(job)


@given(st.integers(0, 2**48 - 2), _RANDOM, _RANDOM)
def test_a_later_id_sorts_later(unix_ms: int, one: bytes, other: bytes) -> None:
    assert new_job(unix_ms, one) < new_job(unix_ms + 1, other)


@pytest.mark.parametrize("text", ["", "video_", "video_" + 31 * "0", "video_" + 32 * "G", "video_" + 31 * "0" + "\0"])
def test_what_is_no_id_is_told_by_its_form(text: str) -> None:
    assert not is_job(text)
