"""The independent comparison must see every way in which two folders can differ."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from headwater.demo.trees import compare, tree_of


def test_a_tree_holds_the_sha256_of_each_file_and_the_target_of_each_link(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("deep/er/a")
    (tmp_path / "to a folder").symlink_to("deep")
    with open(os.fsencode(tmp_path) + b"/odd\xff", "wb"):
        pass
    assert tree_of(tmp_path) == {
        b"deep/er/a": hashlib.sha256(b"abc").hexdigest(),
        b"link": "-> " + b"deep/er/a".hex(),
        b"to a folder": "-> " + b"deep".hex(),
        b"odd\xff": hashlib.sha256(b"").hexdigest(),
    }


def test_every_kind_of_difference_is_named_and_equal_trees_have_none() -> None:
    expected, found = {b"a": "1", b"b": "2", b"c": "3"}, {b"b": "2", b"c": "4", b"d": "5"}
    differences = compare(expected, found)
    assert (differences.missing, differences.surplus, differences.unequal) == ((b"a",), (b"d",), (b"c",))
    assert differences
    assert not compare(expected, dict(expected))
