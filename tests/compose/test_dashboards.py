"""The dashboards are what their module makes, and each query finds something on a process of ours."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.stack.dashboards import text
from headwater.stack.description import compose_file
from headwater.stack.panel import Dashboard
from headwater.stack.panels import DASHBOARDS

FILES = sorted(compose_file("dashboards").glob("*.json"))
QUERIES = [
    pytest.param(target["expr"], target["legendFormat"], id=f"{file.stem}: {panel['title']}: {target['legendFormat']}")
    for file in FILES
    for panel in json.loads(file.read_text("utf-8"))["panels"]
    for target in panel["targets"]
]


class Prometheus:
    """One that scrapes the process with every metric, four times a second."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(address, timeout=10) as response:
                return json.load(response)["data"]["result"]
        except urllib.error.HTTPError as refused:
            with refused:
                if refused.code == 503:  # it has only just started
                    return []
                pytest.fail(f"{expression}: {refused.read().decode()}")
        except OSError:
            return []  # it does not listen yet

    def scrapes(self) -> float:
        found = self.query('count_over_time(headwater_group_records_total{job="headwater"}[1m])')
        return float(found[0]["value"][1]) if found else 0


@pytest.fixture(scope="module")
def scraping(
    prometheus: Path, tmp_path_factory: pytest.TempPathFactory, eventually: Callable[..., object]
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("every_metric.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as ours:
        assert ours.stdout is not None
        target = ours.stdout.readline().strip().removeprefix("http://")
        jobs = [{"job_name": "headwater", "static_configs": [{"targets": [target]}]}]
        config = {"global": {"scrape_interval": "250ms", "scrape_timeout": "250ms"}, "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        with subprocess.Popen(
            [
                prometheus,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={listen}",
                "--log.level=warn",
            ],
            stderr=subprocess.DEVNULL,
        ) as server:
            running = Prometheus(f"http://{listen}")
            try:
                eventually(lambda: running.scrapes() >= 4, within_seconds=60)
                yield running
            finally:
                server.terminate()
                ours.terminate()


@pytest.mark.parametrize(("expression", "legend"), QUERIES)
def test_a_query_finds_something_that_has_the_labels_of_its_legend(
    scraping: Prometheus, expression: str, legend: str
) -> None:
    lines = scraping.query(expression)
    assert lines
    assert set(re.findall(r"{{(\w+)}}", legend)) <= lines[0]["metric"].keys()


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)
def test_the_file_is_what_its_module_makes(dashboard: Dashboard) -> None:
    file = compose_file("dashboards", f"{dashboard.name}.json")
    assert file.read_text("utf-8") == text(dashboard), "run: python -m headwater.stack.dashboards"


def test_every_dashboard_has_its_file_and_every_file_its_dashboard() -> None:
    assert {file.stem for file in FILES} == {dashboard.name for dashboard in DASHBOARDS}


def test_panels_do_not_cover_one_another_and_say_what_they_show() -> None:
    for file in FILES:
        places = set()
        for panel in json.loads(file.read_text("utf-8"))["panels"]:
            grid = panel["gridPos"]
            places.add((grid["x"], grid["y"]))
            assert grid["x"] + grid["w"] <= 24
            assert panel["description"]
        assert len(places) == len(json.loads(file.read_text("utf-8"))["panels"])
