"""Control links over real sockets: who is heard, who falls silent, and what a stranger gets."""

import socket
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.wire import Identity, Kind, key_from
from headwater.consumers.peer.links import frames
from headwater.consumers.peer.links.links import LinkDown, Links, LinkUp, Said, Unreachable
from headwater.rules.cast.bitmap import unpack
from headwater.rules.errors import BadRecord, HeadwaterError

KEY = key_from("for tests only, of no use")


@dataclass
class End:
    """A peer's links, and a listener that hands them what arrives."""

    host: str
    key: bytes = KEY
    events: list[object] = field(default_factory=list)

    def __post_init__(self):
        self.identity = Identity(self.host, 1)
        self.links = Links(self.identity, self.key, self.events.append)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()

    def accept(self):
        while True:
            try:
                accepted, _ = self.listener.accept()
            except OSError:
                return
            try:
                self.links.accept(wire.accept(accepted, self.identity, self.key, 2.0))
            except HeadwaterError:
                accepted.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        self.links.close()

    def saw(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def end():
    made = []

    def end(host, **more):
        made.append(End(host, **more))
        return made[-1]

    yield end
    for one in made:
        one.close()


def test_rack_mates_link_once_whoever_wants_it_and_hear_each_other(end, eventually):
    a, b = end("a"), end("b")
    a.links.want({"b": (1, b.address)})
    b.links.want({"a": (1, a.address)})
    eventually(lambda: a.saw(LinkUp) and b.saw(LinkUp))

    a.links.send("b", 1, b.address, frames.have(7, [1, 2, 3]))
    b.links.send("a", 1, a.address, frames.all_bits(7, np.array([True, False, True])))

    heard = eventually(lambda: b.saw(Said))
    assert heard == [Said(("a", 1), frames.Have(7, (1, 2, 3)))]
    (bits,) = eventually(lambda: a.saw(Said))
    assert unpack(bits.frame.packed, 3).tolist() == [True, False, True]
    assert a.links.count == b.links.count == 1


def test_what_is_sent_before_there_is_a_link_goes_when_it_is_open(end, eventually):
    a, b = end("a"), end("b")

    b.links.send("a", 1, a.address, frames.have(7, [5]))

    assert eventually(lambda: a.saw(Said)) == [Said(("b", 1), frames.Have(7, (5,)))]


def test_a_peer_that_ends_is_missed_at_once(end, eventually):
    a, b = end("a"), end("b")
    a.links.want({"b": (1, b.address)})
    eventually(lambda: a.saw(LinkUp))

    b.close()
    b.close = lambda: None

    assert eventually(lambda: a.saw(LinkDown), within_seconds=0.9) == [LinkDown(("b", 1), silent=False)]


def test_a_peer_that_says_nothing_is_missed_after_a_second(end, eventually):
    a = end("a")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        a.links.want({"b": (1, f"127.0.0.1:{listener.getsockname()[1]}")})
        accepted, _ = listener.accept()
        with accepted:
            wire.accept(accepted, Identity("b", 1), KEY, 2.0)
            eventually(lambda: a.saw(LinkUp))

            assert eventually(lambda: a.saw(LinkDown), within_seconds=3.0) == [LinkDown(("b", 1), silent=True)]


def test_pings_keep_a_link_that_has_nothing_to_say(end, eventually):
    a, b = end("a"), end("b")
    a.links.want({"b": (1, b.address)})
    eventually(lambda: a.saw(LinkUp))

    with pytest.raises(pytest.fail.Exception):
        eventually(lambda: a.saw(LinkDown) or b.saw(LinkDown), within_seconds=2.0)


def test_who_does_not_answer_is_named_and_dialled_again(end, eventually):
    a = end("a")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        a.links.want({"b": (1, address)})

        named = eventually(lambda: len(a.saw(Unreachable)) >= 2 and a.saw(Unreachable))

    assert named[0].who == ("b", 1)
    assert address in named[0].reason


def test_a_stranger_without_the_key_is_not_linked(end, eventually):
    a, stranger = end("a"), end("b", key=key_from("another key, of no use here"))

    a.links.want({"b": (1, stranger.address)})

    assert eventually(lambda: a.saw(Unreachable))
    assert not a.saw(LinkUp)
    assert not stranger.saw(LinkUp)


def test_a_host_that_answers_under_anothers_address_is_not_taken_for_it(end, eventually):
    a, c = end("a"), end("c")

    a.links.want({"b": (1, c.address)})

    assert "c answers" in eventually(lambda: a.saw(Unreachable))[0].reason
    assert a.links.count == 0


def test_garbage_ends_the_link(end, eventually):
    a = end("a")
    made = wire.dial(a.address, Kind.control, Identity("b", 1), KEY, 2.0, lambda _: None)
    with made.socket:
        eventually(lambda: a.saw(LinkUp))

        made.socket.sendall(wire.frame(9, b"what is this"))

        assert eventually(lambda: a.saw(LinkDown))


@pytest.mark.parametrize("body", [b"", b"\0" * 11, frames.have(7, [1])[5:-1], frames.have(7, [1])[5:] + b"\0"], ids=len)
def test_a_word_that_is_not_whole_is_refused(body):
    with pytest.raises(BadRecord):
        frames.read(1, body)
