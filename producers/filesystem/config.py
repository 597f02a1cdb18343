"""What the agent of one source is told: each value with its unit and the reason for its default."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headwater.rules.errors import BadSettings, NotFound


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One mounted source. ``state_folder`` holds its index and must lie outside ``root``."""

    source: str
    site: str
    dataset: str
    root: Path
    state_folder: Path

    include: tuple[str, ...] = ()
    """gitignore patterns; where given, only files that match are carried."""
    exclude: tuple[str, ...] = ("*.swp", "*.tmp")
    """gitignore patterns, stronger than include. By default what editors write beside a file while they save it."""

    watch: Literal["inotify", "fanotify"] = "inotify"
    """Where events come from. inotify needs no privilege and one kernel watch a directory; fanotify needs root and
    hears whole filesystems: for trees of millions of directories."""
    poll_seconds: float = 60.0
    """How often a directory is listed where events do not come (network filesystems, FUSE, overlays, directories beyond
    the kernel's limit of watches: detected, not asked). A pass that takes longer than this sets the pace."""

    in_progress: tuple[str, ...] = ()
    """gitignore patterns of names that a tool gives to files that are not complete, such as "*.part": they are named as
    busy and never read; renaming them says that they are complete."""
    complete_marker: str = ""
    """Name of a marker in a file's directory, such as "{name}.done" or ".complete": a file is read only while it is
    there. Markers are carried like other files, unless ``exclude`` names them."""
    complete_probe: tuple[str, ...] = ()
    """A program and its first arguments; the file's path is added. Exit 0 says that the file is complete."""
    complete_probe_seconds: float = 30.0
    """A probe that takes longer counts as a no, and is killed."""
    complete_probes: int = 8
    """Probes that run at once: some of them may hang until their time is over."""

    settle_seconds: float = 2.0
    """A file is read once size, mtime and ctime stood still this long: longer than most pauses of a copying tool."""
    weak_settle_seconds: float = 30.0
    """The same where no read lease proves that nobody writes (NFS and others)."""
    busy_seconds: float = 60.0
    """A file that did not settle within this time is named as busy in the versions made meanwhile."""
    retry_seconds: float = 10.0
    """How often a busy or unreadable file is looked at again, besides when an event names it."""
    delete_hold_seconds: float = 60.0
    """A path that is gone waits this long before it counts as deleted: it may turn up elsewhere as a rename."""
    deletes_share: float = 0.1
    """Of the known paths, so many may be deleted within a day without asking: more is rather an accident, such as a
    folder that was moved out of the root, and waits for `headwater consent`."""
    deletes_unasked: int = 100
    """So many may always be deleted within a day: a tenth of a small source is nothing."""
    reconcile_seconds: float = 3600.0
    """Each directory is listed again at least this often: what no event told is found then."""

    audit_bytes_per_second: int = 8 * 1024 * 1024
    """Pace at which unchanged files are read again, to find damage that moved no clock; 0: never. 20 TB in 30 days, for
    about a hundredth of a core; a larger source needs its size divided by the time of a cycle."""
    audit_cycle_seconds: float = 30 * 86400.0
    """A cycle of the audit lasts at least this long, and longer where the pace needs it."""

    read_threads: int = 2
    """Files up to 64 MiB are hashed by this many threads; larger ones by one more, whose hash uses every core."""
    settling_limit: int = 10_000
    """Paths that settle at a time, in memory. The walk pauses above it: memory stays flat in the number of files."""
    dirty_limit: int = 50_000
    """Paths that events named and nobody looked at yet; above it, their directories are listed instead."""
    batch_changes: int = 500
    """Changes recorded in one transaction of the index: one fsync for all of them."""
    outbox_limit: int = 50_000
    """Records on disk that Kafka has not acknowledged; above it, reading pauses until the broker catches up."""

    verified_poll_seconds: float = 2.0
    """How often the catalog is asked which pending paths are verified."""
    resend_seconds: float = 3600.0
    """A recorded path whose bytes nobody stores or uploads is sent again after this time; each time waits twice as
    long, so that a long backlog is not read over and over."""
    checkpoint_seconds: float = 2.0
    """While busy, a checkpoint goes out this often: it bounds how far a version lags behind what was sent."""
    heartbeat_seconds: float = 5.0
    """Ownership is confirmed this often; another index may take over 30 s after the last one."""


def checked(config: AgentConfig) -> AgentConfig:
    """The same config with a resolved root. Raises NotFound or BadSettings, naming the key and the fix."""
    asked = f"To sync {config.root} as source {config.source!r}:"
    if not config.root.is_dir():
        raise NotFound(
            f"the root {config.root} {'is not a directory' if config.root.exists() else 'does not exist'}.",
            asked=asked,
            kept="Nothing was changed.",
            advice="Mount it, or name another root.",
        )
    root, state_folder = config.root.resolve(), config.state_folder.resolve()
    if state_folder.is_relative_to(root):
        raise BadSettings(
            f"the state folder {state_folder} lies inside the root {root}, so the agent would carry its own index.",
            asked=asked,
            kept="Nothing was changed.",
            advice="Set state_folder to a folder outside the root.",
        )
    for name, text in (("source", config.source), ("site", config.site), ("dataset", config.dataset)):
        if not text or not all(c.isascii() and (c.isalnum() or c in "-_.") for c in text):
            raise BadSettings(
                f"{name} is {text!r}.",
                asked=asked,
                kept="Nothing was changed.",
                advice=f"Set {name} to ASCII letters, digits, '-', '_' and '.'.",
            )
    _check_completeness(config, asked)
    fields = {name: getattr(config, name) for name in config.__dataclass_fields__}
    return AgentConfig(**{**fields, "root": root, "state_folder": state_folder})


def _check_completeness(config: AgentConfig, asked: str) -> None:
    marker, probe = config.complete_marker, config.complete_probe
    if "/" in marker or marker == "{name}":
        raise BadSettings(
            f"complete_marker is {marker!r}, which is not the name of another file in the same directory.",
            asked=asked,
            kept="Nothing was changed.",
            advice='Set it to a name, such as "{name}.done" or ".complete".',
        )
    if probe and shutil.which(probe[0]) is None:
        raise BadSettings(
            f"complete_probe names {probe[0]!r}, which is no program here.",
            asked=asked,
            kept="Nothing was changed.",
            advice="Set it to a program that this user may run, and its first arguments.",
        )
