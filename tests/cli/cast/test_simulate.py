import subprocess
import sys

import pytest

from headwater.rules.cast.chunks import MIB
from headwater.simulator.scenario import Scenario
from headwater.simulator.simulate import simulate

SMALL = ("cast", "simulate", "--hosts", "20", "--racks", "2", "--size", "1GB", "--chunk", "16MiB")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """A minute of compiling is not part of how long a command may take."""
    simulate(Scenario(hosts=2, racks=1, size_bytes=MIB, chunk_bytes=MIB))


def test_a_simulated_cast_stands_beside_its_floor_and_simpler_plans(command):
    found = command(*SMALL, "--json").json

    assert found["floor_seconds"] == pytest.approx(0.32)
    assert found["swarm"]["seconds"] >= 0.32
    assert found["swarm"]["t_over_floor"] == pytest.approx(found["swarm"]["seconds"] / 0.32)
    assert found["swarm"]["unfinished"] == 0
    assert found["swarm"]["copies_per_rack"] == pytest.approx(1, abs=0.1)
    assert found["swarm"]["curve"]["share"] == sorted(found["swarm"]["curve"]["share"])
    plans = {plan["name"]: plan["seconds"] for plan in found["plans"]}
    assert plans["star"] == pytest.approx(20 * 0.32)
    assert found["swarm"]["seconds"] < plans["binary tree"]
    assert 0 < found["broker"]["read_bytes_per_second"] < 80e6


def test_deaths_and_slow_hosts_show_in_table_and_curve(command):
    ended = command(*SMALL, "--kill", "2@50%", "--slow", "2@25%")

    assert ended.code == 0
    assert "headwater" in ended.out
    assert "2 hosts died" in ended.out
    assert "their own links need 1.28 s" in ended.out
    assert "100 % │" in ended.out
    assert "hosts never got it" not in ended.out


def test_disks_without_page_cache_set_the_floor(command):
    found = command(*SMALL, "--disk", "1GB/s", "--json").json

    assert found["floor_seconds"] == pytest.approx(1.0)
    assert found["binding"] == "disk, written"
    assert found["swarm"]["disk_read_bytes"] > 0


def test_somebody_must_be_left(command):
    ended = command(*SMALL, "--kill", "15@50%", "--slow", "5@25%")

    assert ended.code == 2
    assert "no host is left" in ended.err


def test_without_numba_it_says_how_to_install_it():
    program = "import sys; sys.modules['numba'] = None; from headwater.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, *SMALL], capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 78
    assert "pip install 'headwater[simulate]'" in ended.stderr
    assert "Traceback" not in ended.stderr
