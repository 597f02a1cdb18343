"""The settings that docs/sources.md shows load, and it names every key that it explains as the config spells it."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from headwater.producers.filesystem.config import AgentConfig
from headwater.settings import load

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text("utf-8")


def test_the_settings_of_a_source_load_as_the_page_shows_them(tmp_path: Path) -> None:
    [block] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "headwater.toml"
    file.write_text(block)
    films = load(file=file, environment={}, folder=tmp_path).sources["films"]
    assert films.in_progress == ("*.part", "*.filepart")
    assert films.complete_probe == ("/usr/local/bin/is-whole", "--strict")
    assert (films.complete_marker, films.audit_bytes_per_second) == ("{name}.done", 80_000_000)


def test_each_key_is_one() -> None:
    named = set(re.findall(r"`((?:complete|deletes?|audit|settle|reconcile)_[a-z_]+)`", PAGE))
    assert len(named) > 8
    assert named <= {field.name for field in fields(AgentConfig)}
