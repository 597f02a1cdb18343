"""``headwater why`` for the parts of the service of jobs that are no consumer groups: what they say of themselves, and
what waits for them in the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.cli import output
from headwater.cli.frame import Frame
from headwater.rules.errors import Unavailable

if TYPE_CHECKING:
    from headwater.cli.explain import Explanation, LocalProcess

PARTS = {"api": "headwater api"} | {name: f"headwater run {name}" for name in ("outbox", "sweep", "webhooks")}
"""Their names, and what starts one."""


def explained(the: Frame, name: str, processes: list[LocalProcess]) -> Explanation:
    """Of a name in PARTS. ``processes``: those of this host."""
    from headwater.cli.explain import Explanation

    waits = _waits(the, name)
    for process in processes:
        if process.state in ("degraded", "silent"):
            state = "waiting" if process.state == "degraded" else "silent"
            return Explanation(name, state, f"{process.reason.rstrip('.')}{waits}", f"See `headwater logs {name}`.")
    if processes:
        count = "1 member" if len(processes) == 1 else f"{len(processes)} members"
        return Explanation(name, "running", f"{count} on this host{waits}")
    return Explanation(name, "stopped", f"none runs on this host{waits}", f"Start one with `{PARTS[name]}`.")


def _waits(the: Frame, name: str) -> str:
    """What waits for it, as the end of a sentence; nothing is known of it while the catalog is away."""
    from headwater.connectors.jobs import deliveries, outbox

    try:
        with the.jobs.quiet() as transaction:
            if name == "outbox":
                rows, seconds = outbox.depth(transaction)
                return f"; {rows:,} rows wait, the oldest for {output.duration(seconds)}" if rows else "; nothing waits"
            if name == "webhooks":
                seconds = deliveries.oldest_due_seconds(transaction, full_endpoints=())
                return f"; one is due for {output.duration(seconds)}" if seconds else "; none is due"
    except Unavailable:
        pass
    return ""
