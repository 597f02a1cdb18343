"""Grafana dashboards of our metrics, as JSON in ``compose/dashboards``.

    python -m headwater.stack.dashboards       writes them anew; a test refuses files that differ from this module

A panel's description is what ``headwater.observe`` says about the metric that it shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from headwater.observe import job_metrics
from headwater.stack.description import compose_file
from headwater.stack.panel import Dashboard, Panel
from headwater.stack.panels import DASHBOARDS

_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 24
"""Of a panel, and of the whole page, in Grafana's grid."""


def text(dashboard: Dashboard) -> str:
    """The dashboard's JSON, as Grafana imports and exports it."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    panels = []
    for number, panel in enumerate(dashboard.panels):
        place = number * _WIDTH
        grid = {"x": place % _COLUMNS, "y": place // _COLUMNS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
        panels.append(_panel(panel, number + 1, grid, source))
    choice = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    document = {
        "uid": f"headwater-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["headwater"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [choice]},
        "panels": panels,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _panel(panel: Panel, number: int, grid: dict[str, int], source: dict[str, str]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": " ".join([*_meanings(panel), panel.note]).strip(),
        "datasource": source,
        "gridPos": grid,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend, "datasource": source}
            for index, (legend, query) in enumerate(panel.lines.items())
        ],
    }


def _meanings(panel: Panel) -> Iterator[str]:
    """What the registry of metrics says about each metric of the panel, once."""
    said = {family.name: family.documentation for metric in job_metrics.ALL for family in metric.describe()}
    names = re.findall(r"headwater_\w+", " ".join(panel.lines.values()))
    for name in dict.fromkeys(re.sub(r"_(total|bucket|sum|count)$", "", name) for name in names):
        yield said[name]


if __name__ == "__main__":
    for dashboard in DASHBOARDS:
        compose_file("dashboards", f"{dashboard.name}.json").write_text(text(dashboard), encoding="utf-8")
