"""What a peer serves, to whom, how much at once, and what it does to those who come without the key."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.fetch import Outcome
from headwater.consumers.peer.bytes.seed import SeedFile
from headwater.consumers.peer.bytes.wire import Connection, Identity, Kind, Status
from headwater.rules.cast.choice import UPLOADS_PER_CHUNK
from headwater.rules.cast.chunks import Chunks
from headwater.rules.errors import HeadwaterError, Refused, Unavailable

MIB = 1024 * 1024
EPOCH = 7
SECRET = "the fleet's own secret"


def dial(giver: Any, kind: Kind = Kind.data, host: str = "asker", secret: str = SECRET) -> Connection:
    key = wire.key_from(secret)
    return wire.dial(giver.address, kind, Identity(host, 1), key, 2.0, lambda _: None)


def ask(connection: Connection, chunk: int, epoch: int = EPOCH) -> tuple[Status, int]:
    wire.ask(connection.socket, epoch, chunk)
    return wire.read_answer(connection.socket)


def hold(giver: Any, chunk: int, host: str = "holder") -> Connection:
    """A reader that asks and takes nothing: its slot stays taken while the bytes do not fit into the sockets."""
    connection = dial(giver, host=host)
    assert ask(connection, chunk)[0] is Status.ok
    return connection


@pytest.fixture
def wide(fleet: Any) -> Any:
    """Four chunks of 16 MiB, of a file without data: more than sockets hold."""
    path = fleet.folder / "wide"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
    seed = SeedFile(path, Chunks(64 * MIB, 16 * MIB))
    seed.learn(0, blake3(bytes(16 * MIB)).digest() * 4)
    return seed


def test_what_is_not_here_is_not_served(fleet: Any) -> None:
    content = fleet.content(3 * MIB)
    partial = content.partial(fleet.into())
    content.give(partial, 1)
    with dial(fleet.giver(partial)).socket as connection:
        asker = Connection(connection, Kind.data, Identity("x", 1))
        assert ask(asker, 0) == (Status.not_here, 0)
        assert ask(asker, 99) == (Status.not_here, 0)
        assert ask(asker, 1, epoch=12345) == (Status.not_here, 0)
        assert ask(asker, 1) == (Status.ok, MIB)
        assert wire.receive(connection, MIB) == content.data[MIB : 2 * MIB]


def test_one_reader_of_a_chunk_too_many_is_told_at_once_to_try_another(fleet: Any, wide: Any) -> None:
    giver = fleet.giver(wide, stall_seconds=30.0)
    held = [hold(giver, 0) for _ in range(UPLOADS_PER_CHUNK)]
    late = dial(giver)

    began = time.monotonic()
    assert ask(late, 0) == (Status.busy, 0)
    assert time.monotonic() - began < 0.5
    assert ask(late, 1)[0] is Status.ok

    assert giver.uploads.busy == UPLOADS_PER_CHUNK + 1
    assert giver.uploads.sending(EPOCH) == {0, 1}
    for connection in (*held, late):
        connection.socket.close()


def test_an_origin_has_so_many_slots_and_no_more(fleet: Any, wide: Any, eventually: Callable[..., Any]) -> None:
    giver = fleet.giver(wide, stall_seconds=30.0, uploads=3)
    held = [hold(giver, chunk) for chunk in (0, 1, 2)]
    fourth = dial(giver)

    assert ask(fourth, 3) == (Status.busy, 0)
    held[0].socket.close()
    eventually(lambda: giver.uploads.busy == 2)
    assert ask(fourth, 3)[0] is Status.ok

    for connection in (*held, fourth):
        connection.socket.close()


def test_rack_mates_and_others_do_not_take_each_others_places(fleet: Any, wide: Any) -> None:
    giver = fleet.giver(wide, stall_seconds=30.0, rack_mate=lambda host: host.startswith("mate"))
    held = [hold(giver, 0, f"mate-{number}") for number in range(UPLOADS_PER_CHUNK)]

    mate, stranger = dial(giver, host="mate-x"), dial(giver, host="far")
    assert ask(mate, 0) == (Status.busy, 0)
    assert ask(stranger, 0)[0] is Status.ok

    for connection in (*held, mate, stranger):
        connection.socket.close()


def test_a_reader_that_takes_nothing_loses_its_slot(fleet: Any, wide: Any, eventually: Callable[..., Any]) -> None:
    giver = fleet.giver(wide, stall_seconds=0.3)
    held = hold(giver, 0)

    eventually(lambda: giver.uploads.busy == 0 and giver.uploads.connections == 0)

    served = giver.served.get(timeout=5)
    assert not served.whole
    assert served.bytes < 16 * MIB
    held.socket.close()


def test_a_peer_that_is_dropped_loses_slot_and_connections(
    fleet: Any, wide: Any, eventually: Callable[..., Any]
) -> None:
    giver = fleet.giver(wide, stall_seconds=30.0)
    bad, good = hold(giver, 0, "bad"), dial(giver, host="good")

    giver.uploads.drop("bad", 1)

    eventually(lambda: giver.uploads.busy == 0 and giver.uploads.connections == 1)
    assert ask(good, 1)[0] is Status.ok
    for connection in (bad, good):
        connection.socket.close()


def test_a_source_that_changes_while_it_is_served_gives_no_whole_chunk(fleet: Any, wide: Any) -> None:
    giver = fleet.giver(wide, stall_seconds=30.0)
    connection = hold(giver, 0)

    os.utime(fleet.folder / "wide", ns=(1, 1))

    with pytest.raises(OSError, match="closed"):
        wire.receive(connection.socket, 16 * MIB)
    served = giver.served.get(timeout=5)
    assert "changed" in served.torn
    assert not served.whole
    after = dial(giver)
    assert ask(after, 1) == (Status.refused, 0)
    connection.socket.close()
    after.socket.close()


def test_a_source_that_becomes_shorter_gives_no_whole_chunk(fleet: Any, wide: Any) -> None:
    giver = fleet.giver(wide, stall_seconds=30.0)
    connection = hold(giver, 3)

    os.truncate(fleet.folder / "wide", 50 * MIB)

    with pytest.raises(OSError, match="closed"):
        wire.receive(connection.socket, 16 * MIB)
    assert giver.served.get(timeout=5).torn
    connection.socket.close()


def test_a_flipped_byte_on_a_seeders_disk_is_rejected_by_who_receives_it(fleet: Any) -> None:
    content = fleet.content(2 * MIB)
    bad = content.fill(content.partial(fleet.into("bad")))
    with (fleet.folder / "bad/.headwater-cast/weights.7.partial").open("r+b") as file:
        file.seek(MIB + 5)
        file.write(bytes([content.data[MIB + 5] ^ 1]))
    mine, taker, giver = content.partial(fleet.into("mine")), fleet.taker(), fleet.giver(bad)

    assert taker.get(giver, mine, 0).outcome is Outcome.verified
    rejected = taker.get(giver, mine, 1)

    assert (rejected.outcome, rejected.bytes) == (Outcome.corrupt, MIB)
    assert mine.had().tolist() == [True, False]
    relay = fleet.giver(mine, host="relay")
    assert taker.get(relay, content.partial(fleet.into("third")), 1).outcome is Outcome.not_here


def test_who_lacks_the_key_can_neither_read_nor_feed(fleet: Any) -> None:
    content = fleet.content(MIB)
    giver = fleet.giver(content.seed())
    partial = content.partial(fleet.into())

    for kind in Kind:
        with pytest.raises(HeadwaterError):
            dial(giver, kind, secret="some other secret of another fleet")
    stranger = fleet.giver(content.seed(), host="stranger", secret="some other secret of another fleet")
    assert fleet.taker().get(stranger, partial, 0).outcome is Outcome.refused
    assert fleet.taker(secret="some other secret of another fleet").get(giver, partial, 0).outcome is Outcome.refused

    assert not partial.had().any()
    assert giver.served.empty()
    assert giver.control.empty()


HELLO = b"HWC1" + bytes([2]) + (1).to_bytes(8, "big") + bytes([3]) + b"foe" + bytes(32)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + bytes(100),
        HELLO + bytes(32) + bytes(12),
        b"HWC1" + bytes([9]) + HELLO[5:] + bytes(32),
        b"HWC2" + HELLO[4:] + bytes(32),
    ],
    ids=["another protocol", "a wrong mac", "another kind", "another version"],
)
def test_a_stranger_gets_no_answer_but_a_hello_and_is_counted(
    fleet: Any, said: bytes, eventually: Callable[..., Any]
) -> None:
    content = fleet.content(MIB)
    giver = fleet.giver(content.seed())

    with socket.create_connection(("127.0.0.1", giver.uploads.port)) as raw:
        raw.sendall(said)
        heard = b""
        try:
            while piece := raw.recv(4096):
                heard += piece
        except ConnectionResetError:
            pass

    assert len(heard) <= 14 + 255 + 32 + 32
    eventually(lambda: giver.uploads.strangers == 1)
    assert giver.served.empty()


def test_an_answer_that_was_recorded_opens_nothing_the_next_time(fleet: Any) -> None:
    """Who listened to a handshake and repeats the dialler's half meets another nonce."""
    content = fleet.content(MIB)
    giver = fleet.giver(content.seed())
    said = recorded(giver.uploads.port)
    assert giver.served.get(timeout=5).host == "honest"

    with socket.create_connection(("127.0.0.1", giver.uploads.port)) as raw:
        raw.sendall(said)
        raw.settimeout(5)
        heard = b""
        try:
            while piece := raw.recv(4096):
                heard += piece
        except ConnectionResetError:
            pass

    assert len(heard) < 1000
    assert giver.served.empty()


def recorded(port: int) -> bytes:
    """All that an honest dialler says, with its request, as a relay in between hears it."""
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as relay:

        def pass_on() -> None:
            near, _ = relay.accept()
            with near, socket.create_connection(("127.0.0.1", port)) as far:

                def back() -> None:
                    while piece := far.recv(65536):
                        near.sendall(piece)

                backwards = threading.Thread(target=back)
                backwards.start()
                while piece := near.recv(65536):
                    heard.extend(piece)
                    far.sendall(piece)
                wire.shut(far)
                backwards.join()

        thread = threading.Thread(target=pass_on)
        thread.start()
        address = f"127.0.0.1:{relay.getsockname()[1]}"
        key = wire.key_from(SECRET)
        connection = wire.dial(address, Kind.data, Identity("honest", 1), key, 2.0, lambda _: None)
        assert ask(connection, 0) == (Status.ok, MIB)
        wire.receive(connection.socket, MIB)
        connection.socket.close()
        thread.join()
    return bytes(heard)


def test_those_who_say_nothing_are_shown_out_and_keep_nobody_waiting(fleet: Any) -> None:
    content = fleet.content(MIB)
    giver = fleet.giver(content.seed(), handshakes=4, handshake_seconds=60.0)
    silent = [socket.create_connection(("127.0.0.1", giver.uploads.port)) for _ in range(12)]

    connection = wire.dial(giver.address, Kind.data, Identity("honest", 1), wire.key_from(SECRET), 20.0, lambda _: None)

    assert ask(connection, 0)[0] is Status.ok
    for raw in (*silent, connection.socket):
        raw.close()


def test_a_storm_of_handshakes_is_answered_whole(fleet: Any, eventually: Callable[..., Any]) -> None:
    """Three hundred at once through 64 places: a thousand in the field, where they are as many processes."""
    content = fleet.content(MIB)
    giver = fleet.giver(content.seed(), connections=400)
    dialled: list[Connection] = []
    failed: list[Exception] = []
    together = threading.Barrier(300)

    def storm() -> None:
        together.wait()
        try:
            dialled.append(
                wire.dial(
                    giver.address, Kind.data, Identity("one of many", 1), wire.key_from(SECRET), 20.0, lambda _: None
                )
            )
        except HeadwaterError as error:
            failed.append(error)

    threads = [threading.Thread(target=storm) for _ in range(300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failed
    eventually(lambda: giver.uploads.connections == 300)
    assert ask(dialled[-1], 0)[0] is Status.ok
    for connection in dialled:
        connection.socket.close()
    eventually(lambda: giver.uploads.connections == 0)


def test_beyond_the_most_connections_the_longest_idle_one_goes(fleet: Any, eventually: Callable[..., Any]) -> None:
    content = fleet.content(MIB)
    giver = fleet.giver(content.seed(), connections=3)
    held = []
    for number in range(4):
        held.append(dial(giver))
        eventually(lambda number=number: giver.uploads.connections == min(3, number + 1))

    assert held[0].socket.recv(1) == b""
    assert ask(held[3], 0)[0] is Status.ok
    for connection in held:
        connection.socket.close()


def test_control_connections_are_handed_over(fleet: Any) -> None:
    giver = fleet.giver(host="giver")
    mine = dial(giver, Kind.control, host="neighbour")
    theirs = giver.control.get(timeout=5)

    mine.socket.sendall(wire.frame(3, b"have"))

    assert (theirs.kind, theirs.peer) == (Kind.control, Identity("neighbour", 1))
    assert mine.peer == Identity("giver", 1)
    assert wire.read_frame(theirs.socket) == (3, b"have")
    for connection in (mine, theirs):
        connection.socket.close()


def test_a_port_that_is_taken_is_refused_with_advice(fleet: Any) -> None:
    giver = fleet.giver()

    with pytest.raises(Refused, match=r"peer\.port"):
        fleet.giver(host="second", port=giver.uploads.port)


def test_after_its_end_a_peer_answers_nobody(fleet: Any) -> None:
    giver = fleet.giver()
    giver.uploads.close()

    with pytest.raises(Unavailable):
        dial(giver)


@pytest.mark.parametrize("offset", [2 * 1024 * MIB - 8 * MIB, 4 * 1024 * MIB - 8 * MIB, 5 * 1024 * MIB])
def test_files_of_more_than_two_and_four_gib(fleet: Any, offset: int) -> None:
    """A sparse file of more than 5 GiB with some bytes on both sides of what 31 and 32 bits hold."""
    size, chunk_bytes = 5 * 1024 * MIB + 3, 64 * MIB
    path: Path = fleet.folder / "sparse"
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(max(0, offset - 2))
        file.write(b"mark")
        file.truncate(size)
    chunks = Chunks(size, chunk_bytes)
    chunk = offset // chunk_bytes
    start, length = chunks.span(chunk)
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(length)
    seed = SeedFile(path, chunks)
    seed.learn(chunk, blake3(content).digest())

    connection = dial(fleet.giver(seed))
    assert ask(connection, chunk) == (Status.ok, length)
    assert wire.receive(connection.socket, length) == content
    connection.socket.close()
