"""A model by a back end's name or by a file, and what is said about a file that is wrong."""

from __future__ import annotations

import pytest

from headwater.connectors.models.described import Described, described
from headwater.rules.errors import BadSettings

FILE = """
name = "wan-2.2"
backend = "testcard"
[options]
step_seconds = 0.5
"""


@pytest.fixture
def file(tmp_path):
    def made(text):
        path = tmp_path / "model.toml"
        path.write_text(text)
        return str(path)

    return made


def test_a_back_end_by_its_name_is_a_model_of_that_name():
    assert described("noop", {"seconds": 1}) == Described("noop", "noop", {"seconds": 1})


def test_a_file_names_model_back_end_and_options_and_given_ones_are_taken_over_its(file):
    assert described(file(FILE), {"faults": True}) == Described(
        "wan-2.2", "testcard", {"step_seconds": 0.5, "faults": True}
    )
    assert described(file(FILE), {"step_seconds": 2}).options == {"step_seconds": 2}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "cannot be read"),
        ('name = "a"\nbackend = "torch"', "command, http, noop, testcard"),
        ('name = "a b"\nbackend = "noop"', "no name"),
        ('backend = "noop"', "no name"),
        ('name = "a"\nbackend = "noop"\nslots = 3', "'slots'"),
        ('name = "a"\nbackend = "noop"\n[options]\nmax_bach = 3', "max_batch"),
        ('name = "a"\nbackend = "noop"\n[options]\nseconds = 1979-05-27', "JSON"),
        ('name = "a"\nbackend = "noop"\noptions = 3', "options"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(file, text, said):
    with pytest.raises(BadSettings, match=said):
        described(file(text), {})


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(BadSettings, match=r"none\.toml cannot be read"):
        described("none.toml", {})
