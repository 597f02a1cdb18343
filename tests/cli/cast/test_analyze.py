import pytest


def test_the_floor_of_100_gb_at_25_gbps_and_what_binds_it(command):
    ended = command("cast", "analyze")

    assert ended.code == 0
    assert "floor 32.00 s: origin's uplink and every host's downlink" in ended.out
    assert "MTU 1500: 33.99 s" in ended.out
    assert "MTU 9000: 32.32 s" in ended.out


def test_disks_bind_a_terabyte(command):
    ended = command("cast", "analyze", "--size", "1TB", "--disk", "3GB/s", "--json")

    assert ended.json["floor_seconds"] == pytest.approx(1000 / 3)
    assert ended.json["binding"] == ["disk, written"]
    assert ended.json["bounds"]["rack's uplink"] == pytest.approx(64)


def test_one_core_that_hashes_binds(command):
    found = command("cast", "analyze", "--hash", "1.4GB/s", "--json").json

    assert found["binding"] == ["hashing at the origin"]
    assert found["floor_seconds"] == pytest.approx(71.4, abs=0.1)


def test_headers_slow_links_and_not_disks(command):
    floors = command("cast", "analyze", "--disk", "3.1GB/s", "--json").json["floor_seconds_by_mtu"]

    assert floors["9000"] == pytest.approx(32.32, abs=0.01)
    assert floors["1500"] == pytest.approx(33.99, abs=0.01)
    assert command("cast", "analyze", "--disk", "1GB/s", "--json").json["floor_seconds_by_mtu"]["1500"] == 100


def test_slow_hosts_are_told_apart(command):
    assert "the 20 slow hosts themselves: 128.00 s" in command("cast", "analyze", "--slow", "20@25%").out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--size", "100"], 2, "100GB"),
        (["--nic", "25"], 2, "25Gbps"),
        (["--slow", "20"], 2, "20@50%"),
        (["--oversub", "0.5"], 2, "--oversub"),
        (["--racks", "2000"], 78, "do not fill"),
        (["--slow", "1000@25%"], 78, "are slow"),
    ],
)
def test_mistakes_are_told_with_an_example(command, arguments, code, said):
    ended = command("cast", "analyze", *arguments)

    assert ended.code == code
    assert said in ended.err
