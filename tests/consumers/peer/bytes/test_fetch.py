"""What a fetch makes of sources that lie, break off, fall silent, refuse or vanish. The sources are sockets of ours."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.fetch import Fetch, Outcome
from headwater.consumers.peer.bytes.wire import Identity, Status

MIB = 1024 * 1024
EPOCH = 7
SECRET = "the fleet's own secret"
Script = Callable[[socket.socket], None]
"""What a source does with a request."""


class Scripted:
    """A source that has the key and then does as its script says."""

    def __init__(self, script: Script) -> None:
        self.identity = Identity("scripted", 3)
        self.connections = 0
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def fetch(self, store: Any, chunk: int, incarnation: int = 3) -> Fetch:
        return Fetch(EPOCH, chunk, self.identity.host, incarnation, self.address, store)

    def close(self) -> None:
        wire.shut(self._listener)
        for connection in self._open:
            wire.shut(connection)
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                self._open.append(accepted)
                self.connections += 1
                with contextlib.suppress(OSError), accepted:
                    connection = wire.accept(accepted, self.identity, wire.key_from(SECRET), 5)
                    while wire.read_request(connection.socket):
                        self._script(connection.socket)


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], Scripted]]:
    made: list[Scripted] = []

    def make(script: Script) -> Scripted:
        made.append(Scripted(script))
        return made[-1]

    yield make
    for source in made:
        source.close()


def sends(data: bytes, said: int | None = None) -> Script:
    def script(connection: socket.socket) -> None:
        wire.answer(connection, Status.ok, len(data) if said is None else said)
        connection.sendall(data)
        if said is not None and said > len(data):
            raise ConnectionAbortedError("breaks off")

    return script


def answers(status: Status) -> Script:
    return lambda connection: wire.answer(connection, status)


@pytest.mark.parametrize(
    ("script", "outcome", "received"),
    [
        (sends(bytes(MIB)), Outcome.corrupt, MIB),
        (sends(bytes(1000)), Outcome.corrupt, 0),
        (sends(bytes(2 * MIB)), Outcome.corrupt, 0),
        (sends(bytes(MIB // 2), said=MIB), Outcome.cut_off, MIB // 2),
        (answers(Status.busy), Outcome.busy, 0),
        (answers(Status.not_here), Outcome.not_here, 0),
        (answers(Status.refused), Outcome.refused, 0),
        (lambda connection: connection.sendall(b"\xff" * 5), Outcome.corrupt, 0),
        (lambda connection: connection.shutdown(socket.SHUT_RDWR), Outcome.cut_off, 0),
    ],
    ids=["bad bytes", "short", "long", "breaks off", "busy", "not here", "refused", "nonsense", "closes"],
)
def test_a_bad_source_brings_nothing_and_is_told_apart(
    fleet: Any, scripted: Any, script: Script, outcome: Outcome, received: int
) -> None:
    content = fleet.content(MIB)
    partial, taker, source = content.partial(fleet.into()), fleet.taker(), scripted(script)

    taker.fetches.submit(source.fetch(partial, 0))
    fetched = taker.fetched.get(timeout=10)

    assert (fetched.outcome, fetched.bytes) == (outcome, received)
    assert not partial.had().any()


def test_a_chunk_that_was_refused_comes_from_another_source(fleet: Any, scripted: Any) -> None:
    content = fleet.content(MIB)
    partial, taker, giver = content.partial(fleet.into()), fleet.taker(), fleet.giver(content.seed())
    taker.fetches.submit(scripted(sends(bytes(MIB))).fetch(partial, 0))
    assert taker.fetched.get(timeout=10).outcome is Outcome.corrupt

    assert taker.get(giver, partial, 0).outcome is Outcome.verified
    partial.install(content.root)
    assert (fleet.folder / "into/w.bin").read_bytes() == content.data


def silent_after(data: bytes) -> Script:
    """A black hole in the middle of a chunk: the connection stays, nothing comes."""

    def script(connection: socket.socket) -> None:
        wire.answer(connection, Status.ok, MIB)
        connection.sendall(data)
        connection.recv(1)

    return script


def test_a_black_hole_shows_in_the_fetch_and_can_be_left_at_once(
    fleet: Any, scripted: Any, eventually: Callable[..., Any]
) -> None:
    content = fleet.content(MIB)
    partial, taker, giver = content.partial(fleet.into()), fleet.taker(stall_seconds=30.0), fleet.giver(content.seed())
    fetch = scripted(silent_after(content.data[: MIB // 2])).fetch(partial, 0)
    taker.fetches.submit(fetch)
    eventually(lambda: fetch.received == MIB // 2)
    eventually(lambda: time.monotonic() - fetch.last_progress > 0.3)

    assert taker.get(giver, partial, 0).outcome is Outcome.verified  # a hedge, while the first still holds its place
    began = time.monotonic()
    fetch.cancel()
    assert taker.fetched.get(timeout=10).outcome is Outcome.cancelled
    assert time.monotonic() - began < 1.0
    partial.install(content.root)
    assert (fleet.folder / "into/w.bin").read_bytes() == content.data


def test_a_black_hole_that_nobody_cancels_is_cut_off_in_the_end(fleet: Any, scripted: Any) -> None:
    content = fleet.content(MIB)
    partial, taker = content.partial(fleet.into()), fleet.taker(stall_seconds=0.3)

    taker.fetches.submit(scripted(silent_after(b"x")).fetch(partial, 0))

    assert taker.fetched.get(timeout=10).outcome is Outcome.cut_off


def test_a_cancelled_fetch_that_waits_for_a_thread_never_begins(fleet: Any, scripted: Any) -> None:
    content = fleet.content(MIB)
    partial, taker = content.partial(fleet.into()), fleet.taker(fetches=1, stall_seconds=30.0)
    source = scripted(silent_after(b""))
    first, second = source.fetch(partial, 0), source.fetch(partial, 0)
    taker.fetches.submit(first)
    taker.fetches.submit(second)

    second.cancel()
    first.cancel()

    assert {taker.fetched.get(timeout=10).outcome for _ in range(2)} == {Outcome.cancelled}
    assert source.connections <= 1


def test_another_incarnation_under_the_address_is_not_the_peer_that_was_meant(fleet: Any, scripted: Any) -> None:
    content = fleet.content(MIB)
    partial, taker, source = content.partial(fleet.into()), fleet.taker(), scripted(sends(content.data))

    taker.fetches.submit(source.fetch(partial, 0, incarnation=2))
    assert taker.fetched.get(timeout=10).outcome is Outcome.refused
    taker.fetches.submit(source.fetch(partial, 0, incarnation=3))
    assert taker.fetched.get(timeout=10).outcome is Outcome.verified


def test_nobody_at_the_address(fleet: Any) -> None:
    content = fleet.content(MIB)
    partial, taker = content.partial(fleet.into()), fleet.taker()
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"

    taker.fetches.submit(Fetch(EPOCH, 0, "gone", 1, address, partial))

    assert taker.fetched.get(timeout=10).outcome is Outcome.cut_off


def test_a_hash_that_is_not_known_yet_ends_the_fetch_and_not_its_thread(fleet: Any) -> None:
    content = fleet.content(2 * MIB)
    giver, taker = fleet.giver(content.seed()), fleet.taker(fetches=1)
    partial = type(content.partial(fleet.into("x")))(fleet.into(), "weights", EPOCH, "w.bin", content.chunks)
    partial.learn(1, content.hashes[32:])

    assert taker.get(giver, partial, 0).outcome is Outcome.not_here
    assert taker.get(giver, partial, 1).outcome is Outcome.verified


def test_connections_are_kept_and_a_dead_one_is_replaced(fleet: Any, scripted: Any) -> None:
    content = fleet.content(MIB)
    requests: list[float] = []

    def script(connection: socket.socket) -> None:
        requests.append(time.monotonic())
        wire.answer(connection, Status.busy)
        if len(requests) == 2:
            raise ConnectionAbortedError("closes after the answer, as one that is idle for long does")

    partial, taker, source = content.partial(fleet.into()), fleet.taker(), scripted(script)

    for _ in range(4):
        taker.fetches.submit(source.fetch(partial, 0))
        assert taker.fetched.get(timeout=10).outcome is Outcome.busy

    assert (len(requests), source.connections) == (4, 2)


def test_a_disk_that_takes_no_more_is_nobody_elses_fault(fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = fleet.content(MIB)
    giver, taker, partial = fleet.giver(content.seed()), fleet.taker(), content.partial(fleet.into())

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)

    assert taker.get(giver, partial, 0).outcome is Outcome.no_space
