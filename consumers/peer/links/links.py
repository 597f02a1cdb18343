"""Control links: one connection to each peer that this one talks with, all in one thread.

A link is asked for by ``want`` (rack-mates, for as long as they are) or by ``send`` (others, closed when nothing was
said for a while). Of two peers that both dial, the link that the one with the smaller name dialled stays. Dials are few
at a time and wait, longer each time and each a different while, where nobody answers.

Whoever says nothing for a second is reported as down: everybody pings four times as often. Nothing is ever lost by a
link that breaks: who opens one is told so, and says everything it has on it.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headwater.consumers.peer.bytes import wire
from headwater.consumers.peer.bytes.wire import Connection, Identity
from headwater.consumers.peer.links import frames
from headwater.consumers.peer.links.dials import Dials
from headwater.consumers.peer.links.link import UNSENT, Link
from headwater.consumers.peer.swarm.others import Who
from headwater.observe import logs
from headwater.rules.errors import BadRecord, Refused

log = logs.logger()

PING_SECONDS = 0.25
SILENT_SECONDS = 1.0
_IDLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A link with this peer is open, or was opened anew."""

    who: Who


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The last link with it is gone. ``silent``: it said nothing for a second; else its end was closed or reset."""

    who: Who
    silent: bool


@dataclass(frozen=True, slots=True)
class Unreachable:
    """It does not answer a dial."""

    who: Who
    reason: str


@dataclass(frozen=True, slots=True)
class Said:
    who: Who
    frame: frames.Frame


@dataclass(frozen=True, slots=True)
class Stood:
    """This peer stood still, its clock jumped: others have heard nothing of it and have given it up."""

    seconds: float


Event = LinkUp | LinkDown | Unreachable | Said | Stood


class Links:
    """``on_event`` is called in this object's thread: it must not block. All methods are for any thread."""

    def __init__(self, identity: Identity, key: bytes, on_event: Callable[[Event], None]) -> None:
        self._me, self._on_event = identity, on_event
        self._selector = selectors.DefaultSelector()
        self._links: dict[str, Link] = {}
        self._wanted: dict[str, tuple[int, str]] = {}
        self._dials = Dials(identity, key, self._dialled)
        self._early: dict[Who, bytearray] = {}
        """What is to be sent as soon as a link is open."""
        self._todo: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._woken, self._wake = socket.socketpair()
        for end in (self._woken, self._wake):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="links", daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return len(self._links)

    def accept(self, connection: Connection) -> None:
        """A link that another peer dialled."""
        self._do(lambda: self._adopt(connection, dialled=False))

    def want(self, peers: Mapping[str, tuple[int, str]]) -> None:
        """These peers, by host their incarnation and address, and all of them, are to be linked with from now on."""
        wanted = dict(peers)

        def change() -> None:
            self._wanted = wanted

        self._do(change)

    def send(self, host: str, incarnation: int, address: str, data: bytes) -> None:
        """Frames for a peer. Without a link one is dialled, and they go when it is open, or are lost with it."""
        self._do(lambda: self._send_to((host, incarnation), address, data))

    def close(self) -> None:
        self._ending = True
        self._do(lambda: None)
        self._thread.join()
        self._dials.close()
        for link in self._links.values():
            link.socket.close()
        self._selector.close()
        self._woken.close()
        self._wake.close()

    # In the thread

    def _run(self) -> None:
        swept = time.monotonic()
        while not self._ending:
            for key, mask in self._selector.select(max(0.0, swept + PING_SECONDS / 2 - time.monotonic())):
                if key.data is None:
                    self._drain_wakes()
                    continue
                if mask & selectors.EVENT_READ:
                    self._receive(key.data)
                if mask & selectors.EVENT_WRITE:
                    self._flush(key.data)
            with self._lock:
                todo, self._todo = self._todo, []
            for step in todo:
                step()
            now = time.monotonic()
            if now - swept >= PING_SECONDS / 2:
                self._forgive(now - swept, now)
                swept = now
                self._sweep(now)

    def _forgive(self, seconds: float, now: float) -> None:
        """It was this peer that did nothing for so long, not the others."""
        if seconds > SILENT_SECONDS / 2:
            for link in self._links.values():
                link.heard = now
        if seconds > SILENT_SECONDS + PING_SECONDS:
            self._on_event(Stood(seconds))

    def _do(self, step: Callable[[], None]) -> None:
        with self._lock:
            first = not self._todo
            self._todo.append(step)
        if first:
            try:
                self._wake.send(b"\0")
            except BlockingIOError:
                pass  # it is awake
            except OSError:
                pass  # it has ended

    def _drain_wakes(self) -> None:
        try:
            while self._woken.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _sweep(self, now: float) -> None:
        for link in [*self._links.values()]:
            if now - link.heard > SILENT_SECONDS:
                self._drop(link, silent=True)
            elif link.who[0] not in self._wanted and now - link.used > _IDLE_SECONDS:
                self._drop(link, silent=False)
            elif now - link.spoke >= PING_SECONDS:
                self._write(link, frames.PING, now)
        for host, (incarnation, address) in self._wanted.items():
            link_now = self._links.get(host)
            if (link_now is None or link_now.who[1] < incarnation) and self._me.host < host:
                self._dials.begin((host, incarnation), address, now)

    def _send_to(self, who: Who, address: str, data: bytes) -> None:
        link, now = self._links.get(who[0]), time.monotonic()
        if link is None or link.who[1] < who[1]:
            early = self._early.setdefault(who, bytearray())
            if len(early) < wire.LARGEST_FRAME:
                early += data
            self._dials.begin(who, address, now)
        elif link.who == who:
            link.used = now
            self._write(link, data, now)

    def _dialled(self, who: Who, ended: Connection | Exception) -> None:
        """In a thread of the dials'."""
        self._do(lambda: self._take_dial(who, ended))

    def _take_dial(self, who: Who, ended: Connection | Exception) -> None:
        made = self._dials.note(who, ended)
        if isinstance(made, Connection):
            self._adopt(made, dialled=True)
            return
        self._early.pop(who, None)
        if isinstance(made, Refused):
            log.warning("link.refused", host=who[0], error=made.happened)
        self._on_event(Unreachable(who, str(made)))

    def _adopt(self, connection: Connection, *, dialled: bool) -> None:
        who = (connection.peer.host, connection.peer.incarnation)
        now = time.monotonic()
        link = Link(connection.socket, who, dialled, now, now, now)
        known = self._links.get(who[0])
        if known is not None:
            mine_stays = self._me.host < who[0]
            if known.who[1] > who[1] or (known.who == who and known.dialled == mine_stays and dialled != mine_stays):
                connection.socket.close()
                return
            self._close(known)
        connection.socket.setblocking(False)
        self._selector.register(connection.socket, selectors.EVENT_READ, link)
        self._links[who[0]] = link
        self._on_event(LinkUp(who))
        if early := self._early.pop(who, None):
            self._write(link, bytes(early), now)

    def _receive(self, link: Link) -> None:
        if not link.receive():
            self._drop(link, silent=False)
            return
        link.heard = time.monotonic()
        try:
            for frame in link.frames():
                if not isinstance(frame, frames.Ping):
                    link.used = link.heard
                    self._on_event(Said(link.who, frame))
        except BadRecord as error:
            log.warning("link.garbage", host=link.who[0], error=error.happened)
            self._drop(link, silent=False)

    def _write(self, link: Link, data: bytes, now: float) -> None:
        link.spoke = now
        waiting = bool(link.unsent)
        link.unsent += data
        if not waiting or len(link.unsent) > UNSENT:
            self._flush(link)

    def _flush(self, link: Link) -> None:
        if self._links.get(link.who[0]) is not link:
            return
        if not link.flush():
            self._drop(link, silent=False)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.unsent else 0)
        if self._selector.get_key(link.socket).events != wanted:
            self._selector.modify(link.socket, wanted, link)

    def _drop(self, link: Link, *, silent: bool) -> None:
        if self._links.get(link.who[0]) is link:
            self._close(link)
            self._on_event(LinkDown(link.who, silent))

    def _close(self, link: Link) -> None:
        self._selector.unregister(link.socket)
        link.socket.close()
        if self._links.get(link.who[0]) is link:
            del self._links[link.who[0]]
