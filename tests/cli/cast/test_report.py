"""``headwater cast report`` and ``watch``, on a log that a scripted fleet wrote."""

import time
from threading import Thread

import numpy as np
import pytest

from headwater.connectors.kafka import topics
from headwater.rules.cast.bitmap import pack
from headwater.rules.cast.chunks import Chunks
from headwater.schemas.cast_records import CastEventKind, CastRack, CastState, ManifestKind, MemberState
from headwater.schemas.codec import encode
from headwater.schemas.topics import CAST_RACKS
from tests.any_cast import TOPICS, CastLog, Peer

pytestmark = pytest.mark.stack
MIB = 1024 * 1024
CHUNKS = Chunks(40 * MIB, MIB)


@pytest.fixture
def log(on_stack) -> CastLog:
    topics.apply(on_stack, TOPICS)
    return CastLog(on_stack)


@pytest.fixture
def fleet(log) -> list[Peer]:
    peers = [Peer("a1", "r1"), Peer("a2", "r1"), Peer("b1", "r2")]
    log.join(*peers)
    return peers


def installed(log, peer, root, **fields) -> None:
    log.step(
        peer, 7, "model", CastState.installed,
        root=root, chunks=40, received_bytes=40 * MIB, outside_bytes=20 * MIB, seconds=1.5, **fields,
    )  # fmt: skip
    log.flush()


def test_a_complete_cast_is_reported_with_each_targets_root(log, fleet, command):
    log.announce("model", 5, CHUNKS)
    root = log.announce("model", 7, CHUNKS)
    for peer in fleet:
        installed(log, peer, root)

    told = command("cast", "report", "model", "--nic", "1Gbps", "--json")
    shown = command("cast", "report", "7", "--nic", "1Gbps", "--mtu", "1500")

    assert (told.code, shown.code) == (0, 0), told.err + shown.err
    said = told.json
    assert (said["status"], said["epoch"], said["root"]) == ("complete", 7, root.hex())
    assert [(one["host"], one["state"], one["root"], one["seconds"]) for one in said["targets"]] == [
        (name, "installed", root.hex(), 1.5) for name in ("a1", "a2", "b1")
    ]
    assert said["floor"]["seconds"] == pytest.approx(40 * MIB / 125e6)
    assert said["over_floor"] == pytest.approx(said["seconds"] / said["floor"]["seconds"])
    assert said["copies_per_rack"] == pytest.approx(0.75)
    for words in ("complete", root.hex(), "3 of 3 targets", "MTU 1500", "T / floor", "0.75 times"):
        assert words in shown.out


def test_a_partial_cast_names_who_lacks_it_and_ends_with_three(log, fleet, command):
    root = log.announce("model", 7, CHUNKS, targets=("a1", "a2"))
    installed(log, fleet[0], root)
    log.step(fleet[1], 7, "model", CastState.failed, reason="the disk died", chunks=13)
    log.flush()

    shown = command("cast", "report", "model")

    assert shown.code == 3
    assert "partial: 1 of 2 hosts do not have it" in shown.out
    assert "13 of 40 chunks; the disk died" in shown.out
    assert "b1" not in shown.out


def test_running_and_aborted_casts_have_exit_codes_of_their_own(log, fleet, command):  # noqa: ARG001
    log.announce("model", 7, CHUNKS)
    assert command("cast", "report", "model").code == 75

    log.manifest("model", 7, ManifestKind.aborted, reason="the source changed")
    log.flush()
    shown = command("cast", "report", "model")
    assert shown.code == 1
    assert "aborted: the source changed" in shown.out


def test_an_unknown_cast_is_an_error_that_names_those_that_there_are(log, fleet, command):  # noqa: ARG001
    log.announce("model", 7, CHUNKS)

    shown = command("cast", "report", "modle")

    assert shown.code == 66
    assert "There are: model." in shown.err


def test_a_running_cast_is_watched_until_its_end(log, fleet, command, eventually, tmp_path):
    root = log.announce("model", 7, CHUNKS)
    bits = np.zeros(40, np.bool_)
    bits[:20] = True
    rack = CastRack(
        epoch=7, rack="r1", at_us=time.time_ns() // 1_000, view=1, hosts=2, complete=0, installed=0, least=10,
        median=20, most=30, bits=pack(bits), bytes_per_second=10 * MIB, slow=("a2",), silent=(),
    )  # fmt: skip
    producer = log.kafka.producer()
    producer.produce(log.kafka.physical(CAST_RACKS), encode(rack), rack.key())
    assert producer.flush(30) == 0
    producer.close()
    log.event(fleet[0], 7, CastEventKind.blamed, fleet[2], "chunk 3 has another hash")
    log.event(fleet[0], 7, CastEventKind.hedged, fleet[2], "late")
    log.member(fleet[2], MemberState.suspected)
    installed(log, fleet[0], root)

    said = tmp_path / ".stdout"  # of the command

    def finish() -> None:
        eventually(lambda: said.exists() and "running" in said.read_text(), within_seconds=60)
        installed(log, fleet[1], root)

    ending = Thread(target=finish)
    ending.start()
    watched = command("cast", "watch", "model", "--json", "--nic", "1Gbps", "--every", "0.2")
    ending.join()

    assert watched.code == 3, watched.err
    first, last = watched.lines[0], watched.lines[-1]
    assert last["status"] == "partial"
    assert (last["targets"], last["installed"]) == (3, 2)
    assert [(event["kind"], event["about_host"], event["reason"]) for event in first["events"]] == [
        ("blamed", "b1", "chunk 3 has another hash")
    ]
    assert first["racks"][0]["slow"] == ["a2"]
    assert first["eta_seconds"] == pytest.approx(first["seconds"]), "half of it took so long"

    shown = command("cast", "watch", "model")
    assert shown.code == 3
    for words in ("partial", "r1", "r2", "2/2", "0/1", "blamed b1, says a1: chunk 3 has another hash"):
        assert words in shown.out
