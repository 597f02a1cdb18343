from datetime import UTC, datetime
from pathlib import Path

import pytest

from headwater.cli import output
from headwater.schemas.records import ObjectVerified, Verdict, VerifyMode


def test_records_become_json_with_hashes_as_hex():
    record = ObjectVerified(
        hash=b"\xab" * 32, generation=1, size=3, verdict=Verdict.verified, mode=VerifyMode.full, detail=""
    )

    assert output.plain(record) == {
        "hash": "ab" * 32,
        "generation": 1,
        "size": 3,
        "verdict": "verified",
        "mode": "full",
        "detail": "",
    }


def test_bytes_become_text_or_say_that_they_are_not():
    assert output.plain("größe".encode()) == "größe"
    assert output.plain(b"a\xff") == {"hex": "61ff"}


def test_what_json_lacks_becomes_text():
    moment = datetime(2026, 11, 30, tzinfo=UTC)

    assert output.plain({1: (Path("/a"), moment)}) == {"1": ["/a", "2026-11-30T00:00:00+00:00"]}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (13_000_000, "12.4 MiB"), (3 * 1024**5, "3,072.0 TiB")],
)
def test_sizes_are_in_units_of_1024(count, text):
    assert output.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations_have_two_units_at_most(seconds, text):
    assert output.duration(seconds) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(None, ""), (0.0, "0.0/s"), (0.05, "3.0/min"), (-0.5, "-30.0/min"), (1.0, "1.0/s"), (1234.5, "1,234/s")],
)  # fmt: skip
def test_rates_below_one_a_second_are_told_by_the_minute(per_second, text):
    assert output.rate(per_second) == text
