"""cast-real: 24 peers in 4 racks of network namespaces, links shaped by tc, 8:1 between racks, against their floor.

Each peer is a process of its own in its own namespace, with its own folder, and a broker over an unshaped management
link; the origin hangs at the core. Rates are so low that two cores are not the limit: the CPU's share is stated. The
folders are in memory where there is room: two dozen hosts do not share one disk, and would wait for its fsyncs. Two
casts to the same peers, a fresh file each: one undisturbed; one in which at 30 % three peers are killed -9, two are
stopped, and one has bits flipped in every chunk that it has verified. The stopped ones go on at the end.

``t``: from the announcement on the log until the last host said that it has the file under its name. The floor is
arithmetic: the file over the narrowest link that all of it must cross (here the racks' downlinks), at the goodput of
full TCP segments. Copies per rack are counted twice: by the peers themselves, and by the kernel on the racks' links,
which also sees what was sent twice and every word between peers. Right is what sha256sum says.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
from fleet.disks import poison
from fleet.layout import MTU, Layout
from fleet.members import Members
from fleet.network import network
from fleet.servers import servers
from fleet.story import CastLog
from fleet.trial import Trial, Trials

from headwater.schemas.cast_records import CastEventKind

OWN_STACK = True
"""Its broker listens where the namespaces reach it."""

LAYOUT = Layout(racks=4, hosts=6, nic=30e6, oversubscription=8)
KILLED, STOPPED, POISONED = ("h0-1", "h1-3", "h2-5"), ("h1-0", "h3-2"), "h2-2"
FAULTS_AT = 0.3
MIB = 1024 * 1024
FULL_BYTES, QUICK_BYTES = 512 * MIB + 12_345, 16 * MIB + 12_345
"""513 chunks of 1 MiB: casts have 500 and more, unless their file is small. The ends of a cast take as long as some
forty chunks, however many there are."""
BAR, FAULT_BAR, COPIES_BAR = 1.15, 1.25, 1.1


def run(quick: bool) -> dict[str, object]:
    """The keys of the result, of the undisturbed cast and, with ``fault_``, of the other."""
    size = QUICK_BYTES if quick else FULL_BYTES
    folder = home(size * (LAYOUT.racks * LAYOUT.hosts + 2))
    with ExitStack() as block:
        fleet = block.enter_context(network(LAYOUT, folder))
        served = block.enter_context(servers(folder, fleet.here))
        log = block.enter_context(CastLog(served.client()))
        members = block.enter_context(Members(folder, served.fleet_environment(), fleet.command))
        trials = Trials(fleet, members, log)
        trials.start_peers()
        calm = trials.cast(fresh_file(folder / "calm.bin", size), "calm")
        report("undisturbed", calm)
        for host in fleet.members:
            os.truncate(trials.copy(host, folder / "calm.bin"), 0)  # its peer keeps it open, and with it the memory
            trials.copy(host, folder / "calm.bin").unlink()
        faulty = disturbed(trials, fresh_file(folder / "faulty.bin", size))
        report("with faults", faulty)
        tracebacks = members.tracebacks()
    blamed = sorted(faulty.told.about(CastEventKind.blamed))
    return {
        "t_over_floor": round(calm.over_floor, 3),
        "copies_per_rack": round(max(copies(calm).values()), 3),
        "fault_t_over_floor": round(faulty.over_floor, 3),
        "wrong_bytes": calm.wrong_bytes + faulty.wrong_bytes,
        "copies_per_rack_on_links": round(max(calm.racks.values()), 3),
        "origin_copies_on_links": round(calm.origin, 3),
        "t_s": round(calm.seconds, 2),
        "fault_t_s": round(faulty.seconds, 2),
        "floor_s": round(calm.floor_seconds, 2),
        "bytes": size,
        "mtu": MTU,
        "nic_mbit": LAYOUT.nic / 1e6,
        "rack_uplink_mbit": LAYOUT.uplink / 1e6,
        "hosts": len(fleet.members),
        "racks": LAYOUT.racks,
        "resent_share": round(calm.resent, 4),
        "cpu_share": round(calm.cpu_share, 2),
        "fault_cpu_share": round(faulty.cpu_share, 2),
        "in_memory": folder.is_relative_to("/dev/shm"),
        "peers_cpu_s_per_gib": round(calm.cpu_seconds / (size * len(fleet.members) / 2**30), 2),
        "poisoned": POISONED,
        "blamed": blamed,
        "tracebacks": tracebacks,
    }


def disturbed(trials: Trials, file: Path) -> Trial:
    """The cast with faults. Measured are the hosts to which nothing was done."""
    members, by_name = trials.members, {host.name: host for host in trials.fleet.members}

    def disturb() -> None:
        for name in KILLED:
            members.kill(name)
        for name in STOPPED:
            members.pause(name)
        poison(members.into(by_name[POISONED]))

    apart = (*KILLED, *STOPPED, POISONED)
    outcome = trials.cast(file, "faulty", disturb=disturb, at_share=FAULTS_AT, apart=apart)
    for name in STOPPED:
        members.resume(name)
    return outcome


def failure(result: Mapping[str, Any]) -> str:
    """Which bar was missed; empty where none was. The small size has more pipeline than file: only its bytes count."""
    found = [f"{result['wrong_bytes']} wrong bytes"] if result["wrong_bytes"] else []
    found += [f"{POISONED} was not blamed"] if POISONED not in result["blamed"] else []
    found += [f"{', '.join(others)} blamed too"] if (others := set(result["blamed"]) - {POISONED}) else []
    found += [f"a traceback in {', '.join(result['tracebacks'])}"] if result["tracebacks"] else []
    if result["bytes"] == FULL_BYTES:
        bars = {"t_over_floor": BAR, "fault_t_over_floor": FAULT_BAR, "copies_per_rack": COPIES_BAR}
        found += [f"{name} is {result[name]}, above {bar}" for name, bar in bars.items() if result[name] > bar]
    return "; ".join(found)


def copies(trial: Trial) -> dict[str, float]:
    """Into each rack, by the peers' own count of bytes from outside their rack."""
    outside: Counter[str] = Counter()
    for said in trial.told.installed.values():
        outside[said.rack] += said.outside_bytes
    return {rack: count / trial.size for rack, count in outside.items()}


def report(what: str, trial: Trial) -> None:
    racks = ", ".join(f"{name} {count:.3f}" for name, count in sorted(trial.racks.items()))
    own = ", ".join(f"{name} {count:.3f}" for name, count in sorted(copies(trial).items()))
    print(f"{what}: {trial.seconds:.1f} s, floor {trial.floor_seconds:.1f} s, {trial.over_floor:.3f} times the floor")
    print(f"  copies into racks: {own} (peers), {racks} (links); out of the origin {trial.origin:.3f}")
    print(f"  CPU {trial.cpu_share:.0%} of this machine, peers {trial.cpu_seconds:.0f} s; resent {trial.resent:.1%}")
    print(f"  wrong bytes {trial.wrong_bytes}; events {Counter(event.kind.value for event in trial.told.events)}")


def home(needed: int) -> Path:
    """A new folder in memory where a quarter more than that is free, else on the disk."""
    free = min(psutil.virtual_memory().available, shutil.disk_usage("/dev/shm").free)
    return Path(tempfile.mkdtemp(prefix="headwater-fleet-", dir="/dev/shm" if free > 1.25 * needed else None))


def fresh_file(path: Path, size: int) -> Path:
    path.write_bytes(os.urandom(size))
    return path
