"""cast-soak: 50 casts of one name back to back to peers that live through all of them: none slower, nothing grows.

Four peers in two racks on the loopback follow every cast; each time a new publisher casts a new file under the same
name, as a training job does with its checkpoints. A cast's time is from its announcement on the log until the last
peer has said that it has the file. After each, the memory and the descriptors of every peer are read. The last five
are compared with the first five, by their medians; growth is counted from where the first five ended.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from fleet.disks import wrong_bytes
from fleet.layout import Host
from fleet.members import Members, Usage
from fleet.story import CastLog
from installation import Installation, fresh_name

from headwater.stack.addresses import Addresses

LOOPBACK = IPv4Address("127.0.0.1")
ORIGIN = Host("origin", "", LOOPBACK, 0)
PEERS = [Host(f"p{number}", f"r{number % 2}", LOOPBACK, number) for number in range(1, 5)]
NAME = "checkpoint"
MIB = 1024 * 1024
BAR = 1.05
DEADLINE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Size:
    casts: int
    bytes: int
    compared: int
    """So many at the beginning with as many at the end."""


FULL = Size(casts=50, bytes=128 * MIB + 777, compared=5)
QUICK = Size(casts=6, bytes=32 * MIB + 777, compared=3)


@dataclass(frozen=True, slots=True)
class Done:
    """One cast, and what each peer used after it."""

    seconds: float
    wrong_bytes: int
    usage: Mapping[str, Usage]


def run(addresses: Addresses, quick: bool) -> dict[str, object]:
    """Returns the keys of the result."""
    size = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        ours = Installation(addresses, fresh_name(), Path(folder))
        ours.prepare()
        with CastLog(ours.kafka()) as log, Members(Path(folder), ours.environment()) as members:
            for host in PEERS:
                members.peer(host)
            log.wait(lambda: {host.name for host in PEERS} <= log.joined(), DEADLINE_SECONDS, "peers")
            done = [cast(members, log, Path(folder) / f"{NAME}.bin", size.bytes) for _ in range(size.casts)]
            tracebacks = members.tracebacks()
    seconds = [one.seconds for one in done]
    first, last = (statistics.median(some) for some in (seconds[: size.compared], seconds[-size.compared :]))
    print(f"{size.casts} casts of {size.bytes / MIB:.0f} MiB: the first {first:.2f} s, the last {last:.2f} s")
    return {
        "casts": size.casts,
        "last_over_first": round(last / first, 3),
        "rss_growth_mib": round(growth(done, size.compared, "rss_mib"), 1),
        "fd_growth": round(growth(done, size.compared, "descriptors")),
        "thread_growth": round(growth(done, size.compared, "threads")),
        "rss_mib": round(max(usage.rss_mib for usage in done[-1].usage.values()), 1),
        "bytes": size.bytes,
        "peers": len(PEERS),
        "seconds": [round(value, 2) for value in seconds],
        "wrong_bytes": sum(one.wrong_bytes for one in done),
        "tracebacks": tracebacks,
    }


def failure(result: Mapping[str, Any]) -> str:
    """Which bar was missed; empty where none was. A few short casts are not compared in time."""
    found = [f"{result['wrong_bytes']} wrong bytes"] if result["wrong_bytes"] else []
    found += [f"a traceback in {', '.join(result['tracebacks'])}"] if result["tracebacks"] else []
    if result["casts"] == FULL.casts and result["last_over_first"] > BAR:
        found.append(f"last_over_first is {result['last_over_first']}, above {BAR}")
    found += [f"descriptors grew by {result['fd_growth']}"] if result["fd_growth"] > len(PEERS) else []
    return "; ".join(found)


def cast(members: Members, log: CastLog, file: Path, size: int) -> Done:
    """The next cast of a new file, until every peer has it and its publisher has ended."""
    before = log.newest(NAME)
    file.write_bytes(os.urandom(size))
    publisher = members.publish(ORIGIN, file, NAME)

    def on_all() -> bool:
        told = log.newest(NAME)
        return told is not None and told is not before and {host.name for host in PEERS} <= set(told.installed)

    log.wait(on_all, DEADLINE_SECONDS, f"{NAME} on all peers")
    members.wait(publisher, DEADLINE_SECONDS)
    told = log.newest(NAME)
    assert told is not None
    return Done(
        seconds=told.seconds(host.name for host in PEERS),
        wrong_bytes=wrong_bytes(file, [members.into(host) / file.name for host in PEERS]),
        usage={host.name: members.usage(host.name) for host in PEERS},
    )


def growth(done: Sequence[Done], compared: int, what: str) -> float:
    """The most that any peer grew by, from the median of the first casts' ends to that of the last ones'."""

    def median(some: Sequence[Done], host: str) -> float:
        return statistics.median(getattr(one.usage[host], what) for one in some)

    return max(median(done[-compared:], host.name) - median(done[:compared], host.name) for host in PEERS)
