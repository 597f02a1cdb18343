"""The processes of ours that `headwater up` keeps: one member of each group, one committer of each dataset, the views,
one agent of each configured source, a peer where a folder for casts is set, and the service of generation jobs where
workers have a key. Each is a `headwater run`, `sync`, `peer` or `api`, detached, with a pid file and a log."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.cli.job_groups import JOB_GROUPS
from headwater.cli.run import FILE_GROUPS
from headwater.cli.service import address_file
from headwater.rules.errors import Unavailable
from headwater.settings import Settings
from headwater.stack.logs import tail
from headwater.stack.processes import Running, alive, log_path, start_detached

_ANSWER_SECONDS = 2.0
_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Process:
    """``name`` names its pid file and its log; ``arguments`` are those of the `headwater` command."""

    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """``state`` is what the process says of itself, or ``stopped``, or ``silent`` where it runs and does not answer."""

    name: str
    state: str
    reason: str
    pid: int | None
    url: str | None
    uptime_seconds: float | None


def wanted(settings: Settings) -> list[Process]:
    """What should run here, in the order of a file's way, then of a job's."""
    agents = [
        Process(f"agent-{name}", ("sync", str(source.root), "--source", name))
        for name, source in settings.sources.items()
    ]
    members = [Process(group, ("run", group)) for group in (*FILE_GROUPS, "gossip") if group != "commit"]
    datasets = sorted({settings.dataset, *(source.dataset for source in settings.sources.values())})
    committers = [Process(f"commit-{dataset}", ("run", "commit", "--dataset", dataset)) for dataset in datasets]
    peers = [Process("peer", ("peer",))] if settings.peer.into else []
    return [*agents, *members, *committers, Process("views", ("run", "views")), *peers, *_jobs(settings)]


def serves_jobs(settings: Settings) -> bool:
    """Without a key for workers nobody could do a job."""
    return settings.jobs.serve and bool(settings.worker.key)


def _jobs(settings: Settings) -> list[Process]:
    if not serves_jobs(settings):
        return []
    return [Process("api", ("api",)), *(Process(group, ("run", group)) for group in JOB_GROUPS)]


def start(process: Process, state_folder: Path, options: tuple[str, ...], environment: Mapping[str, str]) -> Running:
    """Starts it unless it runs. ``options`` are the command line's own, such as --config.

    Raises Unavailable where the program cannot be started.
    """
    argv = [sys.executable, "-m", "headwater.cli", *options, *process.arguments]
    return start_detached(process.name, argv, dict(environment), state_folder)


def wait_until_it_answers(process: Process, state_folder: Path) -> None:
    """Raises Unavailable, with what its log says, where it ends or stays silent."""
    deadline = time.monotonic() + _START_SECONDS
    while status(process.name, state_folder).state in ("silent", "starting"):
        if time.monotonic() > deadline:
            raise Unavailable(
                f"{process.name} does not answer after {_START_SECONDS:.0f} s.",
                asked=f"{process.name} was to be started.",
                kept="It goes on starting.",
                advice=f"See `headwater logs {process.name}`.",
            )
        time.sleep(0.05)
    if status(process.name, state_folder).state == "stopped":
        raise Unavailable(
            f"{process.name} ended as soon as it started: {_last_words(process.name, state_folder)}",
            asked=f"{process.name} was to be started.",
            kept="The other processes run.",
            advice=f"See {log_path(process.name, state_folder)}, mend what it says, and run `headwater up` again.",
        )


def status(name: str, state_folder: Path) -> ProcessStatus:
    running = alive(name, state_folder)
    if running is None:
        return ProcessStatus(name, "stopped", "", None, None, None)
    uptime = time.time() - running.started_at
    try:
        url = address_file(state_folder, name, running.pid).read_text("utf-8").strip()
        said = health(url)
    except (OSError, ValueError):
        return ProcessStatus(name, "silent", "it does not answer over HTTP (yet)", running.pid, None, uptime)
    return ProcessStatus(name, said["state"], said["reason"], running.pid, url, uptime)


def health(url: str) -> dict[str, Any]:
    """What a process says of itself: healthy, state, reason, facts. Raises OSError or ValueError without an answer."""
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=_ANSWER_SECONDS) as response:
            return dict(json.load(response))
    except urllib.error.HTTPError as unhealthy:  # 503: it answers, and says why it cannot work
        with unhealthy:
            return dict(json.load(unhealthy))


def _last_words(name: str, state_folder: Path) -> str:
    lines = tail(name, state_folder, 20)
    happened = [line.strip() for line in lines if line.strip().startswith("happened")]
    return (
        happened[-1].removeprefix("happened").strip() if happened else next(iter(reversed(lines)), "(it wrote nothing)")
    )


def options_for_children(config: Path | None, assignments: tuple[str, ...], settings: Settings) -> tuple[str, ...]:
    """The command line's own options, fit for a process that starts in another folder."""
    found = config or (Path(os.environ["HEADWATER_CONFIG"]) if os.environ.get("HEADWATER_CONFIG") else None)
    found = found or (Path("headwater.toml") if Path("headwater.toml").is_file() else None)
    options = ["--config", str(found.expanduser().absolute())] if found else []
    state = f"state_folder={settings.state_folder.absolute()}"
    return (*options, *(part for one in (*assignments, state) for part in ("--set", one)))
