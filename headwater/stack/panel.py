"""What a dashboard is made of."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: PromQL by the legend of its lines. ``unit`` is Grafana's name of it; ``note`` follows the meaning."""

    title: str
    lines: dict[str, str]
    unit: str = "short"
    note: str = ""
    kind: str = "timeseries"


@dataclass(frozen=True, slots=True)
class Dashboard:
    name: str
    title: str
    panels: tuple[Panel, ...] = field(default=())


def quantiles(metric: str, label: str) -> dict[str, str]:
    """Lines for the median and the 99th percentile of a histogram, by a label of it."""

    def quantile(share: float) -> str:
        return f"histogram_quantile({share}, sum by (le, {label}) (rate({metric}_bucket[5m])))"

    return {f"median {{{{{label}}}}}": quantile(0.5), f"99 % {{{{{label}}}}}": quantile(0.99)}
