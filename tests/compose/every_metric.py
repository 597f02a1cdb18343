"""A process of ours that serves every metric there is, with a value: what dashboards are shown in their test.

Prints its address and serves until its stdin ends.
"""

from __future__ import annotations

import sys

from prometheus_client import Counter, Gauge

from headwater.observe import job_metrics, logs
from headwater.observe.http import Health, HttpConfig, ProcessServer
from headwater.schemas.registry import Registry

LABELS = {
    "phase": ("running", "degraded"),
    "verdict": ("verified", "condemned", "ended"),
    "state": ("there", "slow", "busy"),
    "outcome": ("won", "other"),
    "status": ("200", "503"),
}


def main() -> None:
    logs.configure(level="critical")
    for metric in job_metrics.ALL:
        names = metric._labelnames
        choices = [LABELS.get(name, (f"a-{name}",)) for name in names]
        for number in range(max([len(choice) for choice in choices], default=1)):
            child = metric.labels(*(choice[number % len(choice)] for choice in choices)) if names else metric
            if isinstance(metric, Counter):
                child.inc(3)
            elif isinstance(metric, Gauge):
                child.set(7)
            else:
                child.observe(0.02)
    with ProcessServer(HttpConfig(), Registry(list), lambda: Health(True, "running")) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
