"""cast-pair: one peer's data to another over a link of 1 Gbit/s, beside iperf3 on the same link, and over the loopback.

Two processes of the data plane as peers have it (handshake, eight chunks in flight, sendfile, BLAKE3 of every chunk,
pwrite, and at the end fsync and rename), without scheduler and log; then whole casts between two peers, with both. The
link: two network namespaces, each egress shaped by tc-tbf(8); iperf3 and the pair take turns on it. A rate counts the
file's bytes from the first request until it is installed (not the allocation of its space, which only a file in memory
is slow at); that of a whole cast, from its announcement. Over the loopback the taker also leaves steps out: only
receiving; receiving and hashing; all. So the CPU seconds per GiB of both ends are told apart. Files are in memory where
there is room: the disk is not what is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from fleet.layout import GOODPUT_SHARE, MTU, Layout
from fleet.members import Members
from fleet.network import Network, network
from fleet.servers import servers
from fleet.story import CastLog
from fleet.trial import Trials
from pair.ends import STEPS

from headwater.rules.errors import Corrupt, NotFound, Unavailable

OWN_STACK = True
"""Its broker, for the whole casts, listens where the namespaces reach it."""

MIB = 1024 * 1024
LINK = Layout(racks=1, hosts=1, nic=1e9, oversubscription=1)
ENDS = Path(__file__).parent / "pair" / "ends.py"
BAR = 0.95


@dataclass(frozen=True, slots=True)
class Size:
    bytes: int
    rounds: int
    casts: int


FULL, QUICK = Size(1024 * MIB, 5, 3), Size(256 * MIB, 3, 1)


def run(quick: bool) -> dict[str, object]:
    size = QUICK if quick else FULL
    if shutil.which("iperf3") is None:
        raise NotFound("iperf3 is not installed.", advice="Debian, Ubuntu: apt-get install iperf3.")
    with scratch(4 * size.bytes) as folder:
        file = folder / "source.bin"
        with file.open("wb") as source:
            for _ in range(size.bytes // MIB):
                source.write(os.urandom(MIB))
        linked = over_link(file, folder, size)
        return {**linked, **over_loopback(file, folder, size), "mib": size.bytes // MIB, "rounds": size.rounds}


def failure(result: Mapping[str, Any]) -> str:
    ratio = result["ratio_iperf3"]
    return f"ratio_iperf3 is {ratio}, below {BAR}" if ratio < BAR and result["mib"] == FULL.bytes // MIB else ""


def over_link(file: Path, folder: Path, size: Size) -> dict[str, object]:
    """Ours and iperf3 in turn, then whole casts; medians, and the median of each round's ratio."""
    ours, theirs = [], []
    with network(LINK, folder / "link") as fleet:
        giver, taker = fleet.origin, fleet.members[0]
        places = Places(str(giver.address), fleet.command(giver, ()), fleet.command(taker, ()))
        with pair(file, folder, places) as two:
            for number in range(size.rounds):
                theirs.append(iperf3(places, size.bytes))
                ours.append(two.take("peer", size.bytes))
                print(f"link, round {number + 1}: {ours[-1].rate:.1f} MiB/s, iperf3 {theirs[-1]:.1f} MiB/s", flush=True)
        casts = whole_casts(fleet, file, folder / "casts", size)
    return {
        "mib_per_s": round(statistics.median(one.rate for one in ours), 1),
        "iperf3_mib_per_s": round(statistics.median(theirs), 1),
        "ratio_iperf3": round(statistics.median(one.rate / other for one, other in zip(ours, theirs, strict=True)), 3),
        "cast_mib_per_s": round(casts, 1),
        "cast_ratio_iperf3": round(casts / statistics.median(theirs), 3),
        "link_floor_mib_per_s": round(LINK.nic * GOODPUT_SHARE / 8 / MIB, 1),
        "link_mtu": MTU,
        "link_cpu_s_per_gib": round(statistics.median(one.giver_cpu + one.taker_cpu for one in ours), 2),
    }


def whole_casts(fleet: Network, file: Path, folder: Path, size: Size) -> float:
    """MiB/s between two whole peers, from the announcement on the log until the file is installed; the median."""
    rates = []
    folder.mkdir()
    with ExitStack() as block:
        home = Path(block.enter_context(tempfile.TemporaryDirectory(prefix="headwater-pair-")))
        served = block.enter_context(servers(home, fleet.here))
        log = block.enter_context(CastLog(served.client()))
        members = block.enter_context(Members(folder, served.fleet_environment(), fleet.command))
        trials = Trials(fleet, members, log)
        trials.start_peers()
        for number in range(size.casts):
            trial = trials.cast(file, f"cast-{number}")
            if trial.wrong_bytes:
                raise Corrupt(f"{trial.wrong_bytes} wrong bytes arrived")
            rates.append(size.bytes / MIB / trial.seconds)
            print(f"link, whole cast {number + 1}: {rates[-1]:.1f} MiB/s", flush=True)
    return statistics.median(rates)


def over_loopback(file: Path, folder: Path, size: Size) -> dict[str, object]:
    """The whole, and what is left of it without some of its steps."""
    places = Places("127.0.0.1", (), ())
    taken: dict[str, list[Taken]] = {step: [] for step in STEPS}
    plain = []
    with pair(file, folder, places) as two:
        for number in range(size.rounds):
            plain.append(iperf3(places, size.bytes))
            for step in STEPS:
                taken[step].append(two.take(step, size.bytes))
            rates = "  ".join(f"{step} {found[-1].rate:,.0f}" for step, found in taken.items())
            print(f"loopback, round {number + 1}: MiB/s: {rates}  iperf3 {plain[-1]:,.0f}", flush=True)
    gib = size.bytes / 1024 / MIB

    def cost(step: str, end: str) -> float:
        return round(statistics.median(getattr(one, end) for one in taken[step]) / gib, 2)

    sends, receives, hashes, whole = (
        cost("peer", "giver_cpu"), cost("receive", "taker_cpu"), cost("hash", "taker_cpu"), cost("peer", "taker_cpu"),
    )  # fmt: skip
    where = {"send": sends, "receive": receives, "hash": hashes - receives, "write_and_install": whole - hashes}
    print("CPU s per GiB: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in where.items()))
    return {
        "loopback_mib_per_s": round(statistics.median(one.rate for one in taken["peer"])),
        "loopback_iperf3_mib_per_s": round(statistics.median(plain)),
        "loopback_receive_mib_per_s": round(statistics.median(one.rate for one in taken["receive"])),
        "loopback_hash_mib_per_s": round(statistics.median(one.rate for one in taken["hash"])),
        "cpu_s_per_gib": round(sends + whole, 2),
        "cpu_s_per_gib_by_step": {name: round(seconds, 2) for name, seconds in where.items()},
    }


@dataclass(frozen=True, slots=True)
class Places:
    """Where the ends are: the giver's address, and what runs a program at each."""

    address: str
    giver: Sequence[str]
    taker: Sequence[str]


@dataclass(frozen=True, slots=True)
class Taken:
    """One transfer: MiB/s to the installed file, and the CPU seconds of both ends."""

    rate: float
    giver_cpu: float
    taker_cpu: float


class Pair:
    def __init__(self, giver: subprocess.Popen[str], taker: subprocess.Popen[str]) -> None:
        self._giver = giver
        self._taker = taker

    def take(self, step: str, size: int) -> Taken:
        before = told(self._giver, "cpu")
        seconds, taker_cpu = told(self._taker, step)
        return Taken(size / MIB / seconds, told(self._giver, "cpu") - before, taker_cpu)


@contextmanager
def pair(file: Path, folder: Path, places: Places) -> Iterator[Pair]:
    """Both ends, ready."""
    into = folder / "into"
    with (
        process([*places.giver, sys.executable, str(ENDS), "give", places.address, str(file)]) as giver,
        process(
            [*places.taker, sys.executable, str(ENDS), "take", f"{places.address}:{heard(giver)}", str(file), str(into)]
        ) as taker,
    ):
        heard(taker)
        yield Pair(giver, taker)
    shutil.rmtree(into)


@contextmanager
def process(argv: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Ends when its input does."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            assert started.stdin is not None
            started.stdin.close()
            try:
                started.wait(20)
            except subprocess.TimeoutExpired:
                started.kill()


def told(end: subprocess.Popen[str], line: str) -> Any:
    """What an end answers to a line."""
    assert end.stdin is not None
    end.stdin.write(line + "\n")
    end.stdin.flush()
    return heard(end)


def heard(end: subprocess.Popen[str]) -> Any:
    assert end.stdout is not None
    line = end.stdout.readline()
    if not line:
        raise Unavailable(f"{end.args!r} ended with {end.wait()}.")
    return json.loads(line)


def iperf3(places: Places, size: int) -> float:
    """MiB/s that iperf3's client receives of so many bytes, from a server at the giver's place."""
    serve = [*places.giver, "iperf3", "--server", "--one-off", "--bind", places.address, "--json"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            ask = [*places.taker, "iperf3", "--client", places.address, "--reverse", "--bytes", str(size), "--json"]
            for _ in range(50):
                done = subprocess.run(ask, capture_output=True, text=True, check=False)
                if done.returncode == 0 and (received := json.loads(done.stdout)["end"].get("sum_received")):
                    return float(received["bits_per_second"]) / 8 / MIB
                time.sleep(0.1)  # the server does not listen yet
            raise Unavailable(f"iperf3 says: {done.stdout[-500:]}")
        finally:
            server.terminate()


@contextmanager
def scratch(needed: int) -> Iterator[Path]:
    """A folder in memory, where much more of that is free; else on the disk of temporary files."""
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() and psutil.virtual_memory().available > 2 * needed else None
    print(f"files are {'in memory' if base else 'on the disk'}", flush=True)
    with tempfile.TemporaryDirectory(prefix="headwater-pair-", dir=base) as folder:
        yield Path(folder)
