"""Capabilities: what they refuse of a request, what they cost, and that nobody stores ones that make no sense."""

from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.errors import BadRecord
from headwater.rules.jobs.capabilities import Capabilities, cost_seconds, length_class, pixels, refusals

PARAMETERS = {
    "type": "object",
    "properties": {
        "seed": {"type": "integer", "minimum": 0},
        "style": {"type": "object", "properties": {"name": {"enum": ["noir", "comic"]}}},
        "word": {"type": "string", "pattern": "^(a+)+$"},
    },
    "additionalProperties": False,
}
MODEL = Capabilities(
    sizes=("1280x720", "64x64"),
    max_seconds=8,
    parameters=PARAMETERS,
    gpu_seconds_per_second={"1280x720": 7.5, "64x64": 0.5},
)
GOOD = {"prompt": "a red fox", "size": "64x64", "seconds": "8", "parameters": {"seed": 7}, "has_input": False}


def refused(**changes: object) -> list[str]:
    return [refusal.field for refusal in refusals(MODEL, **{**GOOD, **changes})]


def test_what_the_model_can_do_is_not_refused():
    assert refused() == []
    assert refused(parameters={}) == []


@pytest.mark.parametrize("seconds", ["0", "9", "-1", "1.5", "08", "8 ", "", "eight", "٣", "9" * 400])
def test_seconds_are_whole_and_within_the_models_limit(seconds):
    assert refused(seconds=seconds) == ["seconds"]


def test_each_refusal_names_its_field():
    assert refused(size="63x64") == ["size"]
    assert refused(prompt="x" * 4001) == ["prompt"]
    assert refused(has_input=True) == ["input_url"]
    assert refused(parameters={"seed": -1}) == ["parameters.seed"]
    assert refused(parameters={"style": {"name": "opera"}}) == ["parameters.style.name"]
    assert refused(parameters={"sead": 1}) == ["parameters"]
    assert refused(size="?", seconds="?", parameters={"seed": "?"}) == ["size", "seconds", "parameters.seed"]


def test_a_model_that_starts_from_a_picture_needs_one():
    starts_from_a_picture = replace(MODEL, input="required")

    assert [one.field for one in refusals(starts_from_a_picture, **GOOD)] == ["input_url"]
    assert refusals(starts_from_a_picture, **{**GOOD, "has_input": True}) == ()


def test_text_that_is_no_unicode_is_refused():
    assert refused(parameters=json.loads(r'{"word": "\ud800"}')) == ["parameters"]


def test_numbers_that_json_does_not_have_are_refused():
    assert refused(parameters={"seed": float("nan")}) == ["parameters.seed"]
    assert refused(parameters={"seed": 10**400}) == []  # valid by the schema


def test_a_pattern_takes_linear_time():
    assert refused(parameters={"word": "a" * 50_000 + "b"}) == ["parameters.word"]  # backtracking would take for ever


def test_refusals_hold_no_value_and_are_few():
    found = refusals(MODEL, **{**GOOD, "parameters": {"seed": "secret", **{f"p{n}": n for n in range(1000)}}})

    assert len(found) <= 10
    assert "secret" not in " ".join(one.message for one in found)


def test_capabilities_travel_as_json():
    assert Capabilities.from_json(json.loads(json.dumps(MODEL.to_json()))) == MODEL


def test_what_a_newer_worker_says_beyond_is_ignored():
    assert Capabilities.from_json({**MODEL.to_json(), "colours": 3}) == MODEL


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"sizes": []}, "sizes"),
        ({"sizes": ["720p"]}, "sizes"),
        ({"max_seconds": 0}, "max_seconds"),
        ({"max_batch": 0}, "max_batch"),
        ({"step_limit_seconds": 0}, "step_limit_seconds"),
        ({"load_limit_seconds": float("inf")}, "load_limit_seconds"),
        ({"batch_wait_seconds": -1}, "batch_wait_seconds"),
        ({"gpu_seconds_per_second": {"64x64": 1}}, "1280x720"),
        ({"gpu_seconds_per_second": {"64x64": 1, "1280x720": float("nan")}}, "1280x720"),
        ({"container": "avi"}, "container"),
        ({"parameters": {"type": "nonsense"}}, "parameters"),
    ],
)
def test_capabilities_that_make_no_sense_are_refused_by_name(change, named):
    with pytest.raises(BadRecord, match=named):
        Capabilities.from_json({**MODEL.to_json(), **change})


def test_a_schema_that_refers_elsewhere_is_refused_and_nobody_is_asked():
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        schema = {"$ref": f"http://127.0.0.1:{elsewhere.getsockname()[1]}/schema"}

        with pytest.raises(BadRecord, match="parameters"):
            Capabilities.from_json({**MODEL.to_json(), "parameters": schema})

        with pytest.raises(BlockingIOError):
            elsewhere.accept()


@pytest.mark.parametrize("said", [None, 5, [], {}])
def test_what_are_no_capabilities_at_all_is_refused(said):
    with pytest.raises(BadRecord):
        Capabilities.from_json(said)


def test_the_cost_is_that_of_the_size_and_length():
    assert cost_seconds(MODEL, "1280x720", 4) == 30.0


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_works_of_one_length_class_differ_by_less_than_a_factor_of_two(one, other):
    if length_class(one) == length_class(other):
        assert max(one, other) < 2 * min(one, other)


def test_a_size_is_width_and_height():
    assert pixels("1280x720") == (1280, 720)
