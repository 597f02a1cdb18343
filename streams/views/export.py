"""The views as metrics of the process that makes them."""

from __future__ import annotations

from headwater.observe import metrics
from headwater.rules.fleet import GroupState
from headwater.streams.views.picture import Picture

_MICROSECONDS = 1_000_000


class Export:
    """Shows one picture after the other. A group that is forgotten takes its series with it."""

    def __init__(self) -> None:
        self._shown: set[str] = set()

    def show(self, picture: Picture) -> None:
        for stage in picture.stages:
            metrics.VIEW_RECORDS.labels(stage.stage).set(stage.minute_records)
            metrics.VIEW_BYTES.labels(stage.stage).set(stage.minute_bytes)
            metrics.VIEW_WAITING.labels(stage.stage).set(stage.waiting)
            metrics.VIEW_BEHIND_SECONDS.labels(stage.stage).set(_age(stage.at_us, stage.oldest_us))
            metrics.VIEW_TIME.set(stage.at_us / _MICROSECONDS)
        groups = {group.group for group in picture.groups}
        for group in picture.groups:
            for state in GroupState:
                metrics.VIEW_GROUP_STATE.labels(group.group, state).set(group.state == state)
            silent = group.since_us if group.state == GroupState.silent else None
            metrics.VIEW_GROUP_SILENT_SECONDS.labels(group.group).set(_age(group.at_us, silent))
        for gone in self._shown - groups:
            metrics.VIEW_GROUP_SILENT_SECONDS.remove(gone)
            for state in GroupState:
                metrics.VIEW_GROUP_STATE.remove(gone, state)
        self._shown = groups


def _age(at_us: int, since_us: int | None) -> float:
    return 0.0 if since_us is None else max(0.0, (at_us - since_us) / _MICROSECONDS)
