"""The guide to models: its files describe models that can be set up, and its table is that of the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from headwater.connectors.models.described import described
from headwater.connectors.models.testcard import faults
from headwater.rules.jobs.failures import KINDS, FailurePolicy, Kind, kind_of
from headwater.settings import load

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_each_file_of_the_guide_describes_a_model(tmp_path):
    files = [block for block in BLOCKS if "backend" in tomllib.loads(block)]
    assert len(files) == 2
    for text in files:
        (tmp_path / "model.toml").write_text(text)

        model = described(str(tmp_path / "model.toml"), {})

        assert model.name == tomllib.loads(text)["name"]


def test_its_settings_are_settings(tmp_path):
    (settings,) = (block for block in BLOCKS if "failures" in tomllib.loads(block))
    (tmp_path / "headwater.toml").write_text(settings)

    policy = load(file=tmp_path / "headwater.toml", environment={}, folder=tmp_path).failures

    assert kind_of("license_gone", policy) is Kind.permanent
    assert kind_of("license_gone", FailurePolicy()) is Kind.transient


def test_its_table_of_codes_is_that_of_the_code():
    rows = re.findall(r"^\| (\w+) \| ([`\w, ]+) \|", PAGE, re.MULTILINE)
    said = {code: kind for kind, codes in rows for code in re.findall(r"`(\w+)`", codes)}

    assert said == {code: kind.value for code, kind in KINDS.items()}


def test_the_faults_that_it_names_are_there():
    named = set(re.findall(r"`(\w+_at_step)`", PAGE))

    assert named == {name for name in faults.SCHEMA if name.endswith("_at_step")}
