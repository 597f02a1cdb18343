"""Names that fold together are found, and no others; the Unicode library of another language agrees."""

from __future__ import annotations

import os
import subprocess
import tracemalloc
import unicodedata
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.collisions import Collision, collisions, folded

_OF_1999 = unicodedata.ucd_3_2_0
letters = st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="/", max_codepoint=0xFFFF).filter(
    lambda letter: _OF_1999.category(letter) != "Cn"
)  # assigned so long ago that every library knows them
awkward = st.sampled_from(
    "aAbBsS\u017f\xdf\u1e9ekK\u212aiI\u0131\u0130\u03c2\u03c3\u03a3jJ\u01f0\xe9\xc9\xe5\u212b\u0301\u0323\u030c\u0345\u0307\u0390\u1fd3\u1fb3"
)
names = st.text(letters | awkward, min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A.jpg", "a.jpg"),
        ("caf\u00e9", "cafe\u0301"),
        ("CAF\u00c9", "cafe\u0301"),
        ("\u212b", "\u00e5"),  # the sign of the ångström
        ("straße", "STRASSE"),
        ("j\u0323\u030c", "J\u030c\u0323"),  # two marks in either order
        ("\u1f80", "\u1f88"),
        ("\u2764\ufe0f.jpg", "\u2764.jpg"),  # as an emoji and as a sign
    ],
)
def test_what_a_reader_takes_for_one_name_folds_together(one: str, other: str) -> None:
    assert one != other
    assert folded(one.encode()) == folded(other.encode())


@pytest.mark.parametrize(
    ("one", "other"), [(b"a", b"b"), (b"\xe9", b"\xc9"), (b"A\xff", b"a\xff"), (b"1", "¹".encode())]
)
def test_what_it_tells_apart_does_not(one: bytes, other: bytes) -> None:
    assert folded(one) != folded(other)


@given(st.lists(names, min_size=1, max_size=50))
def test_perl_folds_the_same(texts: list[str]) -> None:
    """Perl has tables of its own. What is ignored it keeps: that is compared with its property."""
    script = (
        "use open qw(:std :utf8); use feature 'fc'; use Unicode::Normalize;"
        r"while (<>) { chomp; s/\p{Default_Ignorable_Code_Point}//g; print NFD(fc(NFD($_))), qq(\n) }"
    )
    try:
        done = subprocess.run(
            ["perl", "-e", script],
            input="".join(f"{text}\n" for text in texts).encode(),
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        pytest.skip("no perl here")
    if done.returncode:
        pytest.skip(f"perl: {done.stderr.decode()}")

    assert [folded(text.encode()) for text in texts] == done.stdout.split(b"\n")[:-1]


def by_pairs(paths: set[bytes]) -> set[frozenset[bytes]]:
    """Every two entries of every directory, each compared with each."""
    entries = {b"/".join(path.split(b"/")[:depth]) for path in paths for depth in range(1, path.count(b"/") + 2)}
    return {
        frozenset((one, other))
        for one, other in combinations(entries, 2)
        if one.rpartition(b"/")[0] == other.rpartition(b"/")[0]
        and folded(one.rpartition(b"/")[2]) == folded(other.rpartition(b"/")[2])
    }


few_names = st.sampled_from([b"a", b"A", b"a-", b"A-", b"b", b"\xff", "é".encode(), "e\u0301".encode(), "É".encode()])
trees = st.sets(st.lists(few_names, min_size=1, max_size=4).map(b"/".join), max_size=25)


@given(trees)
def test_each_name_that_has_a_twin_is_found_once(paths: set[bytes]) -> None:
    found = list(collisions(sorted(paths)))

    expected = by_pairs(paths)
    pairs = [frozenset((one.first, one.other)) for one in found]
    assert set(pairs) <= expected
    assert len(set(pairs)) == len(pairs)
    assert {path for pair in pairs for path in pair} == {path for pair in expected for path in pair}


def test_directories_collide_and_what_lies_in_them_is_not_named_again() -> None:
    paths = [b"A/x", b"A/y", b"a-b", b"a/x", b"a/y", b"b/C", b"b/c/d", b"bb/C"]

    assert list(collisions(paths)) == [Collision(b"A", b"a"), Collision(b"b/C", b"b/c")]


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("f/A.jpg", "f/a.jpg", "f/A.jpg and f/a.jpg"),
        ("é/caf\u00e9", "é/cafe\u0301", r"é/caf\xe9 and é/cafe\u0301"),
        ("\u2764\ufe0f", "\u2764", r"\u2764\ufe0f and \u2764"),
        ("É", "é", "É and é"),
    ],
)
def test_names_that_look_alike_are_shown_by_their_code_points(one: str, other: str, shown: str) -> None:
    assert str(Collision(one.encode(), other.encode())) == shown


def test_a_name_that_is_a_file_and_a_directory_is_one_name() -> None:
    """A version may hold both for a while; the newer one comes out."""
    assert list(collisions([b"A", b"a", b"a-", b"a/x"])) == [Collision(b"A", b"a")]


def test_what_is_held_are_the_directories_on_the_way() -> None:
    """Not the 50,000 names: a hundred at a time."""
    paths = (b"%05d/%02d" % (folder, name) for folder in range(500) for name in range(100))
    tracemalloc.start()
    try:
        assert list(collisions(paths)) == []
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
