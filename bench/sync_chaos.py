"""sync-chaos: seeded rounds of kills, pauses, outages and bad networks; a separate checker counts what was broken.

Each round edits a folder all the time while processes of ours are killed or stopped for longer than every time-out,
Kafka, PostgreSQL, S3 and lakeFS are killed and started again (or away for a minute), network paths drop, delay, stall
and half-close, and a second committer and a second agent turn up. Then all is mended and comes to rest, and the
checker reads the log, the catalog, lakeFS, S3 and the folder. ``HEADWATER_CHAOS_SEED`` repeats the plan of a run.
The run fails where a promise was broken, and the full size also where a kind of fault never came.
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

from chaos.checker import Finding
from chaos.rounds import Shape, installation

OWN_STACK = True
"""It kills servers: it starts its own."""

FULL = Shape(rounds=20, seconds=50, away_seconds=60, large_every=60)
QUICK = Shape(rounds=1, seconds=8, away_seconds=3, large_every=60, files=100)
LAST_ROUND_BEGINS_SECONDS = 54 * 60
"""The full size ends within an hour, even on a slower machine with fewer rounds."""


def run(quick: bool) -> dict[str, object]:
    """The keys of the result; ``findings`` says what was broken, in sentences."""
    shape = QUICK if quick else FULL
    seed = int(os.environ.get("HEADWATER_CHAOS_SEED") or secrets.randbelow(1_000_000))
    print(f"seed {seed} (HEADWATER_CHAOS_SEED={seed} repeats it)", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="headwater-chaos-"))
    found: set[Finding] = set()
    done, began = 0, time.monotonic()
    with installation(folder, seed, shape, _print_step) as chaos:
        while done < shape.rounds and time.monotonic() - began < LAST_ROUND_BEGINS_SECONDS:
            findings = chaos.round()
            done += 1
            for finding in sorted(set(findings) - found):
                print(f"  {finding}", flush=True)
            found |= set(findings)
            print(f"round {done}: {len(findings)} findings after {time.monotonic() - began:.0f} s", flush=True)
        evidence, drawn = chaos.evidence(), chaos.inflict.counts()
    print(*(f"  {times:3} × {kind}" for kind, times in drawn.items() if times), sep="\n", flush=True)
    if found:
        print(f"Logs and state are kept in {folder}.", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return {
        "rounds": done,
        **{kind: _count(found, kind) for kind in ("lost", "mixed", "duplicate_versions", "resent_parts")},
        **{kind: _count(found, kind) for kind in ("foreign", "older", "disagreement", "buried", "ended")},
        "versions": len(evidence.versions),
        "changes": len(evidence.changes),
        "objects": len(evidence.objects),
        "seed": seed,
        "seconds": round(time.monotonic() - began),
        "drawn": drawn,
        "never_drawn": [] if quick else [kind for kind, times in drawn.items() if not times],
        "findings": [str(finding) for finding in sorted(found)],
    }


def failure(result: Mapping[str, Any]) -> str:
    """Why the run failed; empty where it did not."""
    found = [f"{len(result['findings'])} broken promises"] if result["findings"] else []
    never = [f"never drawn: {', '.join(result['never_drawn'])}"] if result["never_drawn"] else []
    return "; ".join(found + never)


def _count(found: set[Finding], kind: str) -> int:
    return sum(finding.kind == kind.removesuffix("s") or finding.kind == kind for finding in found)


def _print_step(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
