"""Every metric that a headwater process exports, each with the sentence that tells an operator what to read from it.

One section a component. A metric that is not here does not exist: dashboards and alerts are tested against ``ALL``.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

ALL: list[MetricWrapperBase] = []


def _counter(name: str, meaning: str, *labels: str) -> Counter:
    metric = Counter(f"headwater_{name}", meaning, labels)
    ALL.append(metric)
    return metric


def _gauge(name: str, meaning: str, *labels: str) -> Gauge:
    metric = Gauge(f"headwater_{name}", meaning, labels)
    ALL.append(metric)
    return metric


def _histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
    metric = Histogram(f"headwater_{name}", meaning, labels, buckets=buckets)
    ALL.append(metric)
    return metric


SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets for durations from a millisecond to five minutes."""
