"""Namespaces and shaped links as iperf3 sees them, and that nothing stays behind. For root with iperf3 only."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fleet.claim import namespaces, sweep
from fleet.layout import GOODPUT_SHARE, Host, Layout
from fleet.network import Network, missing, network
from fleet.traffic import crossed, sent

NIC = 40e6
LAYOUT = Layout(racks=2, hosts=2, nic=NIC, oversubscription=4)  # uplinks of 20 Mbit/s
SERVER = ["iperf3", "--server", "--one-off"]

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed."),
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with network(LAYOUT, tmp_path_factory.mktemp("fleet") / "home") as made:
        yield made


class Measure:
    """Bits per second of TCP payload between two hosts, by another program."""

    def __init__(self, fleet: Network, eventually: Callable[..., object]) -> None:
        self._fleet, self._eventually = fleet, eventually

    def __call__(self, sender: Host, receiver: Host, seconds: float = 1.5) -> float:
        with subprocess.Popen(self._fleet.command(receiver, SERVER), stdout=subprocess.DEVNULL) as server:
            self._eventually(lambda: listens(self._fleet, receiver))
            words = ["iperf3", "--json", "--omit", "0.5", "--time", str(seconds), "--client", str(receiver.address)]
            done = subprocess.run(self._fleet.command(sender, words), capture_output=True, text=True, check=False)
            server.kill()
        received: float = json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]
        return received


def listens(fleet: Network, host: Host) -> bool:
    words = fleet.command(host, ["ss", "-Hltn", "sport = :5201"])
    return bool(subprocess.run(words, capture_output=True, check=True).stdout)


@pytest.fixture
def measure(fleet: Network, eventually: Callable[..., object]) -> Measure:
    return Measure(fleet, eventually)


@pytest.mark.parametrize(
    ("sender", "receiver", "rate"),
    [
        pytest.param("h0-0", "h0-1", NIC, id="inside a rack: the NICs"),
        pytest.param("h0-0", "h1-1", LAYOUT.uplink, id="from rack to rack: the uplinks"),
        pytest.param("origin", "h1-0", LAYOUT.uplink, id="from the origin into a rack: the uplink"),
    ],
)
def test_a_link_carries_what_it_is_shaped_to(
    fleet: Network, measure: Measure, sender: str, receiver: str, rate: float
) -> None:
    hosts = {host.name: host for host in fleet.hosts}
    carried = []
    for _ in range(3):  # a busy machine may keep a link from being full, but none may ever carry more
        carried.append(measure(hosts[sender], hosts[receiver]) / (rate * GOODPUT_SHARE))
        if carried[-1] > 0.95:
            break
    assert 0.95 < max(carried) < 1.05, carried


RECEIVE = """
import socket
listener = socket.create_server(("", 5201))
connection = listener.accept()[0]
while connection.recv(65536):
    pass
"""
SEND = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 5201))
connection.sendall(bytes(int(sys.argv[2])))
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
"""


def test_counters_tell_payload_from_headers(fleet: Network, eventually: Callable[..., object]) -> None:
    # given a payload of known size, from rack to rack
    size = 3_000_000
    source, target = fleet.members[0], fleet.members[2]
    before, sent_before = crossed(fleet), sent(fleet, source.name)
    with subprocess.Popen(fleet.command(target, [sys.executable, "-c", RECEIVE])):
        eventually(lambda: listens(fleet, target))
        words = [sys.executable, "-c", SEND, str(target.address), str(size)]
        subprocess.run(fleet.command(source, words), check=True)

    # when the counters are read, then every link on the way shows it, and no other
    after = crossed(fleet)
    told = {name: (after[name] - before[name]).payload_bytes for name in after}
    for name in ("r0-up", "r1-down", target.name):
        assert told[name] == pytest.approx(size, rel=0.02)
    assert size <= (sent(fleet, source.name) - sent_before).payload_bytes < size * 1.3, "the uplink dropped the rest"
    for name in ("r1-up", "r0-down", source.name, "origin", "h0-1", "h1-1"):
        assert abs(told[name]) < size / 100


def test_hosts_reach_this_machine_by_the_management_link_and_nothing_else(fleet: Network) -> None:
    routes = json.loads(subprocess.check_output(fleet.command(fleet.origin, ["ip", "-j", "route"])))
    assert {route["dev"] for route in routes} == {"eth0", "management"}
    assert "default" not in {route["dst"] for route in routes}


def test_two_fleets_do_not_meet(fleet: Network, tmp_path: Path) -> None:
    with network(Layout(racks=1, hosts=1, nic=NIC, oversubscription=1), tmp_path / "home") as other:
        assert other.claim.number != fleet.claim.number
        assert other.here != fleet.here
        reachable = other.command(other.origin, ["ip", "-j", "neighbour", "show"])
        assert json.loads(subprocess.check_output(reachable) or b"[]") == []
    assert namespaces(fleet.claim), "the end of one is not the end of the other"
    assert not namespaces(other.claim)


FORSAKEN = """
import subprocess, sys, time
from pathlib import Path
from fleet.layout import Layout
from fleet.network import network
with network(Layout(racks=1, hosts=1, nic=40e6, oversubscription=1), Path(sys.argv[1])) as fleet:
    sleeper = subprocess.Popen(fleet.command(fleet.origin, ["sleep", "600"]))
    print(fleet.claim.number, sleeper.pid, flush=True)
    time.sleep(600)
"""


def test_what_a_killed_run_left_is_removed_by_the_next_and_a_living_one_is_left(fleet: Network, tmp_path: Path) -> None:
    # given a run that is killed -9 while a process of its runs in a namespace
    bench = str(Path(__file__).resolve().parents[2] / "bench")
    home = tmp_path / "forsaken"
    with subprocess.Popen(
        [sys.executable, "-c", FORSAKEN, str(home)], env={**os.environ, "PYTHONPATH": bench}, stdout=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        number, sleeper = map(int, run.stdout.readline().split())
        prefix = f"hwf{number}-"
        assert prefix in _names()
        assert home.exists()
        run.send_signal(signal.SIGKILL)

    # when another run begins
    sweep()

    # then of the dead one nothing is left, and of ours everything
    assert prefix not in _names()
    assert not home.exists()
    assert not _lives(sleeper)
    assert len(namespaces(fleet.claim)) == 6


def _names() -> str:
    return subprocess.check_output("ip netns list; ip -o link", shell=True, text=True)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
