"""Alerts, the metrics that they look at, and the runbooks that they name, held together."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.observe import job_metrics
from headwater.stack.description import compose_file

HOME = Path(__file__).parents[2]
SUBJECTS = ("alerts", "jobs")
"""Each a file of rules."""
UNIT_TESTS = sorted(Path(__file__).parent.glob("*_test.yml"))
_ALL_RULES = [
    rule
    for subject in SUBJECTS
    for group in yaml.safe_load(compose_file("prometheus", f"{subject}.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
RULES = [rule for rule in _ALL_RULES if "alert" in rule]
RECORDED = [rule for rule in _ALL_RULES if "record" in rule]
RUNBOOKS = {page.stem: page for page in (HOME / "docs" / "runbooks").glob("*.md") if page.stem != "README"}
HEADINGS = ["What it means", "First look", "Fix", "Proof that it is fixed"]
ISSUE = {
    "lag growing": "HeadwaterLagGrowing",
    "group stuck": "HeadwaterGroupStuck",
    "dead letters": "HeadwaterDeadLetters",
    "source halted": "HeadwaterSourceHalted",
    "verification mismatch": "HeadwaterVerificationMismatch",
    "agent silent": "HeadwaterAgentSilent",
    "disk filling": "HeadwaterDiskFilling",
}
"""What operators must be told of, at least."""


def exported() -> dict[str, set[str]]:
    """The name of each series that our processes export, with its labels."""
    series: dict[str, set[str]] = {}
    for metric in job_metrics.ALL:
        for family in metric.describe():
            suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
            for suffix in suffixes:
                series[family.name + suffix] = {*metric._labelnames, *(["le"] if suffix == "_bucket" else [])}
    return series


def named(text: str) -> set[str]:
    return set(re.findall(r"\bheadwater_\w+", text))


def looked_at(expression: str) -> set[str]:
    """The metrics that it names, and those that what it names was recorded from."""
    recorded = [rule["expr"] for rule in RECORDED if rule["record"] in expression]
    return named(" ".join([expression, *recorded]))


alert = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


def test_operators_are_told_of_all_that_they_must_know() -> None:
    assert set(ISSUE.values()) <= {rule["alert"] for rule in RULES}


@alert
def test_an_alert_looks_at_metrics_that_exist(rule: dict[str, Any]) -> None:
    assert looked_at(rule["expr"]) <= exported().keys()
    assert looked_at(rule["expr"]) or rule["expr"].startswith('up{job="headwater"}')


@alert
def test_an_alert_says_how_bad_it_is_and_names_its_own_runbook(rule: dict[str, Any]) -> None:
    page = HOME / rule["annotations"]["runbook"]
    words = re.sub(r"(?<=[a-z])([A-Z])", r"-\1", rule["alert"].removeprefix("Headwater")).lower()
    assert page.stem == words
    assert page.is_file()
    assert page.read_text("utf-8").startswith(f"# {rule['alert']}\n")
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert f"| [{rule['alert']}]({page.name}) | {rule['labels']['severity']} |" in (
        page.with_name("README.md").read_text("utf-8")
    )


def test_every_runbook_belongs_to_an_alert() -> None:
    assert RUNBOOKS.keys() == {Path(rule["annotations"]["runbook"]).stem for rule in RULES}


@pytest.mark.parametrize("page", RUNBOOKS.values(), ids=RUNBOOKS.keys())
def test_a_runbook_is_one_page_that_ends_with_the_proof(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert len(text.splitlines()) <= 60
    assert re.search(r"^ {4,}\w", text.partition("## Proof")[2], re.MULTILINE), "a proof is a command"


@pytest.mark.parametrize("page", RUNBOOKS.values(), ids=RUNBOOKS.keys())
def test_a_runbook_names_metrics_that_exist(page: Path) -> None:
    families = exported().keys() | {family.name for metric in job_metrics.ALL for family in metric.describe()}
    assert named(page.read_text("utf-8")) <= families


def test_every_record_is_looked_at() -> None:
    expressions = " ".join(rule["expr"] for rule in RULES)
    assert {rule["record"] for rule in RECORDED if rule["record"] not in expressions} == set()


def test_promtool_accepts_the_rules(promtool: Path) -> None:
    for subject in SUBJECTS:
        run(promtool, "check", "rules", compose_file("prometheus", f"{subject}.yml"))


def test_alerts_fire_and_keep_quiet_as_their_unit_tests_say(promtool: Path) -> None:
    run(promtool, "test", "rules", *UNIT_TESTS)


def test_prometheus_loads_every_file_of_rules() -> None:
    loaded = yaml.safe_load(compose_file("prometheus", "prometheus.yml").read_text("utf-8"))["rule_files"]
    assert loaded == [f"{subject}.yml" for subject in SUBJECTS]


def test_every_alert_has_a_unit_test_in_which_it_fires_on_series_that_exist() -> None:
    cases = [case for file in UNIT_TESTS for case in yaml.safe_load(file.read_text("utf-8"))["tests"]]
    fired = {one["alertname"] for case in cases for one in case["alert_rule_test"] if one.get("exp_alerts")}
    assert fired == {rule["alert"] for rule in RULES}
    known = exported()
    for case in cases:
        for given in case["input_series"]:
            name, _, labels = given["series"].partition("{")
            if name != "up":
                assert set(re.findall(r"(\w+)=", labels)) - {"instance"} <= known[name], given["series"]


def run(*argv: str | Path) -> None:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
