"""A stack makes its secrets once, and keeps them when a newer release needs one more."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from headwater.stack.secrets import Secrets


def test_secrets_are_made_once(tmp_path: Path) -> None:
    first = Secrets.of(tmp_path)
    assert Secrets.of(tmp_path) == first
    assert len(set(asdict(first).values())) == len(asdict(first))
    assert list(tmp_path.iterdir()) == [tmp_path / "secrets.json"]


def test_a_home_of_an_older_release_gets_the_secret_it_lacks_and_keeps_the_others(tmp_path: Path) -> None:
    before = asdict(Secrets.of(tmp_path))
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({name: value for name, value in before.items() if name != "peer_key"}))

    after = asdict(Secrets.of(tmp_path))

    assert len(after.pop("peer_key")) == 64
    assert after == {name: value for name, value in before.items() if name != "peer_key"}
    assert asdict(Secrets.of(tmp_path)).items() > after.items()
    assert path.stat().st_mode & 0o077 == 0
