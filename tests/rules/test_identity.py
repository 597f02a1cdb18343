"""Clocks order states; names are injective; keys round-trip."""

from __future__ import annotations

import unicodedata

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.identity import (
    MAX_KEY_BYTES,
    Clock,
    change_key,
    content_hash,
    dataset_path,
    display,
    object_key,
    object_of,
)

path_bytes = st.binary(min_size=1, max_size=1200).filter(lambda path: b"\x00" not in path)


@given(st.tuples(st.integers(0), st.integers(0)), st.tuples(st.integers(0), st.integers(0)))
def test_a_newer_epoch_wins_whatever_the_counter_says(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (Clock(*one) < Clock(*other)) == (one < other)
    assert Clock(2, 0) > Clock(1, 10**12)


def test_content_is_identified_by_blake3_as_published() -> None:
    # The BLAKE3 test vector for empty input.
    assert content_hash(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"


def test_each_generation_of_an_object_has_a_key_of_its_own() -> None:
    digest = blake3(b"x").digest()
    assert object_key(digest, 1) == f"objects/{digest.hex()[:2]}/{digest.hex()}.1"
    assert object_key(digest, 1) != object_key(digest, 2)


@given(st.binary(min_size=32, max_size=32), st.integers(1, 999_999_999))
def test_an_object_key_says_which_object_it_is(content: bytes, generation: int) -> None:
    assert object_of(object_key(content, generation)) == (content, generation)


@pytest.mark.parametrize(
    "key",
    [
        "objects/",
        "objects/ab/cd.1",
        f"objects/ab/{'cd' * 32}.1",
        f"objects/ab/{'ab' * 32}.0",
        f"objects/ab/{'ab' * 32}.1\n",
        f"objects/ab/{'ab' * 32}.1.copy",
        f"x/objects/ab/{'ab' * 32}.1",
    ],
)
def test_another_key_is_no_object(key: str) -> None:
    assert object_of(key) is None


@given(path_bytes, path_bytes)
def test_a_change_key_names_one_source_and_path(one: bytes, other: bytes) -> None:
    assert change_key("photos", one).partition(b"\x00") == (b"photos", b"\x00", one)
    assert (change_key("photos", one) == change_key("photos", other)) == (one == other)


@given(path_bytes)
def test_every_path_gets_a_name_that_the_stores_can_hold(path: bytes) -> None:
    name = dataset_path("photos", path)
    assert len(name.encode("utf-8")) <= MAX_KEY_BYTES
    assert all(unicodedata.category(c) != "Cc" or ord(c) >= 0x80 for c in name)


@given(path_bytes, path_bytes)
def test_two_paths_never_share_a_name(one: bytes, other: bytes) -> None:
    assert (dataset_path("photos", one) == dataset_path("photos", other)) == (one == other)


def test_ordinary_names_are_kept_as_they_are() -> None:
    assert dataset_path("photos", "été/großes Bild 🎬.jpg".encode()) == "photos/été/großes Bild 🎬.jpg"
    longest = b"a" * (MAX_KEY_BYTES - len("photos/"))
    assert dataset_path("photos", longest) == "photos/" + longest.decode()


def test_a_real_name_cannot_pose_as_the_hashed_form_of_another() -> None:
    hashed = dataset_path("photos", b"bad\xff.jpg")
    assert hashed.startswith("photos/bad_.jpg~")
    impostor = hashed.removeprefix("photos/").encode()
    assert dataset_path("photos", impostor) != hashed


def test_display_never_carries_control_characters_to_a_terminal() -> None:
    assert display(b"a\x1b[31m\nb\xff") == "a\\x1b[31m\\nb\\xff"
    assert display("Ünï.png".encode()) == "Ünï.png"
