"""jobs-chaos: jobs are ordered while everything fails, by seeds; a separate checker counts what was broken.

Each seed orders 1,000 jobs over a minute, some of which are cancelled, late or cannot succeed, while workers are killed
or stopped for longer than their lease or cut off from their endpoint, every other process is killed or stopped, the
scheduler stands still for 30 s, Kafka, PostgreSQL and S3 are killed and started again, and S3 is away. Then all is
mended, every job ends, and the checker reads the history: clients' answers, webhooks, the catalog, the log, S3. In a
quiet installation of its own, with the default lease, ``attempt2_s`` is the slowest of 20 takeovers after kill -9.
``HEADWATER_CHAOS_SEED`` repeats the plans of a run. The run fails where a promise was broken, and the full size also
where a kind of fault never came.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobs.checker import KINDS, Finding
from jobs.forged import checker_catches_forged
from jobs.rounds import Shape, installation
from jobs.takeover import second_attempt

OWN_STACK = True
"""It kills servers: it starts its own."""

FULL = Shape(seeds=20, jobs=1_000, seconds=60, faults=12, away_seconds=10, takeovers=20)
QUICK = Shape(seeds=1, jobs=60, seconds=8, faults=3, away_seconds=1, takeovers=1, workers=2, copies=1)
DEFAULT_LEASE_SECONDS = 10.0
LAST_SEED_BEGINS_SECONDS = 50 * 60
"""The full size ends within an hour, even on a slower machine with fewer seeds."""


def run(quick: bool) -> dict[str, object]:
    """The keys of the result; ``findings`` says what was broken, in sentences."""
    shape = QUICK if quick else FULL
    first = int(os.environ.get("HEADWATER_CHAOS_SEED") or secrets.randbelow(1_000_000))
    print(f"seeds from {first} (HEADWATER_CHAOS_SEED={first} repeats them)", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="headwater-jobs-chaos-"))
    found: set[Finding] = set()
    seeds, began = 0, time.monotonic()
    takeovers = measure_takeovers(folder / "quiet", shape)
    with installation(folder / "chaos", first, shape, _print_step) as chaos:
        while seeds < shape.seeds and time.monotonic() - began < LAST_SEED_BEGINS_SECONDS:
            findings = chaos.round(first + seeds)
            seeds += 1
            for finding in sorted(set(findings) - found):
                print(f"  {finding}", flush=True)
            found |= set(findings)
            print(
                f"seed {first + seeds - 1}: {len(findings)} findings after {time.monotonic() - began:.0f} s", flush=True
            )
        evidence, drawn = chaos.evidence(), chaos.inflict.counts()
    print(*(f"  {times:3} × {kind}" for kind, times in drawn.items() if times), sep="\n", flush=True)
    if found:
        print(f"Logs and state are kept in {folder}.", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    attempts = [attempt.epoch for attempt in evidence.attempts]
    return {
        "jobs": shape.jobs,
        "seeds": seeds,
        "lost": _count(found, "lost"),
        "duplicates": _count(found, "duplicate"),
        "stale_results": _count(found, "stale"),
        "attempt2_s": round(max(takeovers), 2),
        "checker_catches_forged": checker_catches_forged(),
        **{kind: _count(found, kind) for kind in (*KINDS[3:], "ended")},
        "accepted": len(evidence.jobs),
        "attempts": len(attempts),
        "most_attempts": max(attempts, default=0),
        "webhooks_heard": len(evidence.received),
        "attempt2_all_s": [round(seconds, 2) for seconds in takeovers],
        "first_seed": first,
        "seconds": round(time.monotonic() - began),
        "drawn": drawn,
        "never_drawn": [] if quick else [kind for kind, times in drawn.items() if not times],
        "findings": [str(finding) for finding in sorted(found)],
    }


def measure_takeovers(folder: Path, shape: Shape) -> list[float]:
    quiet = Shape(seeds=0, jobs=0, seconds=0, faults=0, away_seconds=0, copies=1, lease_seconds=DEFAULT_LEASE_SECONDS)
    with installation(folder, 0, quiet, _print_step) as chaos:
        taken = []
        for number in range(shape.takeovers):
            taken.append(second_attempt(chaos.service, chaos.tenants[0], number))
            print(f"  attempt 2 began {taken[-1]:.2f} s after kill -9", file=sys.stderr, flush=True)
    return taken


def failure(result: Mapping[str, Any]) -> str:
    """Why the run failed; empty where it did not."""
    found = [f"{len(result['findings'])} broken promises"] if result["findings"] else []
    never = [f"never drawn: {', '.join(result['never_drawn'])}"] if result["never_drawn"] else []
    forged = [] if result["checker_catches_forged"] else ["the checker does not catch every forged history"]
    return "; ".join(found + never + forged)


def _count(found: set[Finding], kind: str) -> int:
    return sum(finding.kind == kind for finding in found)


def _print_step(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
