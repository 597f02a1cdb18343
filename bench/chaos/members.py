"""Our own processes on those servers: one agent, two uploaders of each kind, the verifiers, a committer."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from processes import Processes

from headwater.stack.addresses import Addresses

SITE, SOURCE, DATASET, PREFIX = "chaos", "film", "chaos", "chaos."

_SETTINGS = f"""
site = "{SITE}"
dataset = "{DATASET}"
log_level = "info"
[kafka]
prefix = "{PREFIX}"
[commit]
every_seconds = 3
[sources.{SOURCE}]
root = "film"
settle_seconds = 0.2
weak_settle_seconds = 0.5
delete_hold_seconds = 0.5
deletes_unasked = 1000000
busy_seconds = 20
retry_seconds = 2
"""


class Members(Processes):
    """Started and started again by the same command line, as a service manager would."""

    ARGUMENTS = {  # noqa: RUF012
        "agent": ("sync", "film", "--source", SOURCE),
        "upload-files": ("run", "upload-files"),
        "upload-files.2": ("run", "upload-files"),
        "upload-parts": ("run", "upload-parts"),
        "upload-parts.2": ("run", "upload-parts"),
        "verify-objects": ("run", "verify-objects"),
        "verify-large": ("run", "verify-large"),
        "commit": ("run", "commit"),
    }
    NAMES = tuple(ARGUMENTS)

    def __init__(self, folder: Path, addresses: Addresses) -> None:
        self.root = folder / "film"
        self.root.mkdir(parents=True)
        (folder / "headwater.toml").write_text(_SETTINGS)
        own = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        super().__init__(folder, own | addresses.environment(), self.ARGUMENTS)

    def prepare(self) -> None:
        """The catalog's tables and the topics, by the command that a user would run; its processes are ours."""
        self.run("up", "--servers")

    def second_agent(self) -> int:
        """Another agent of the same source, with an index of its own: how it ended."""
        done = subprocess.run(
            [*self.command("second"), "sync", "film", "--source", SOURCE],
            cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=60, check=False,
        )  # fmt: skip
        self.log("second-agent").write_bytes(done.stdout + done.stderr)
        return done.returncode

    def agent_facts(self) -> dict[str, Any]:
        """What the agent says of itself; empty where it does not answer."""
        try:
            url = (self.folder / "state" / "run" / f"agent-{SOURCE}.{self.pid('agent')}.http").read_text().strip()
            with urllib.request.urlopen(f"{url}/healthz", timeout=2) as answer:
                return dict(json.load(answer)["facts"])
        except (OSError, ValueError):
            return {}
