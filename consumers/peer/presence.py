"""One incarnation of a peer on the network: its listener, its fetching threads, and its control links."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

from headwater.consumers.peer.bytes.fetch import Fetched, Fetches
from headwater.consumers.peer.bytes.limits import Limits
from headwater.consumers.peer.bytes.serve import Served, Uploads
from headwater.consumers.peer.bytes.store import ChunkStore
from headwater.consumers.peer.bytes.wire import Connection, Identity, key_from
from headwater.consumers.peer.config import PeerConfig
from headwater.consumers.peer.links.links import Event as LinkEvent
from headwater.consumers.peer.links.links import Links
from headwater.rules.errors import BadSettings


@dataclass(frozen=True, slots=True)
class Calls:
    """What is called of a peer in threads that are not its scheduler's."""

    stores: Callable[[int], ChunkStore | None]
    rack_mate: Callable[[str], bool] | None
    on_event: Callable[[LinkEvent | Fetched | Served], None]


class Presence:
    """Answers from ``start`` on, at ``port``."""

    def __init__(self, config: PeerConfig, identity: Identity, calls: Calls, port: int) -> None:
        """Raises BadSettings without a key, Refused where the port is taken."""
        key = _key(config)
        self.identity = identity
        self.sent, self.received = Limits(config.bytes_per_second), Limits(config.bytes_per_second)
        self._caps: dict[int, int | None] = {}
        self.links = Links(identity, key, calls.on_event)
        self.fetches = Fetches(config, identity, key, self.received, calls.on_event)
        self.uploads = Uploads(
            replace(config, port=port),
            identity,
            key,
            self.sent,
            stores=calls.stores,
            on_control=self._accept,
            on_served=calls.on_event,
            rack_mate=calls.rack_mate,
        )

    def start(self) -> None:
        self.uploads.start()

    def cap(self, epoch: int, bytes_per_second: int | None) -> None:
        """The most of a cast that this host sends, and the most that it receives. The same again changes nothing."""
        if self._caps.get(epoch) != bytes_per_second:
            self._caps[epoch] = bytes_per_second
            for limits in (self.sent, self.received):
                limits.cap_cast(epoch, bytes_per_second)

    def close(self) -> None:
        self.uploads.close()
        self.fetches.close()
        self.links.close()

    def _accept(self, connection: Connection) -> None:
        self.links.accept(connection)


def advertised(config: PeerConfig, servers: str) -> str:
    """The address under which others reach this host: that of its route to the first of the Kafka ``servers``."""
    if config.advertised is not None:
        return config.advertised
    host, _, port = servers.partition(",")[0].rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
        with socket.socket(found[0][0], socket.SOCK_DGRAM) as probe:
            probe.connect(found[0][4])
            return str(probe.getsockname()[0])
    except (OSError, ValueError) as error:
        raise BadSettings(
            f"the address of this host cannot be told from its route to Kafka at {servers}: {error}.",
            asked="A peer was to be started.",
            kept="Nothing was started.",
            advice="Set peer.advertised to the address under which the other hosts reach this one.",
            key="peer.advertised",
        ) from error


def _key(config: PeerConfig) -> bytes:
    if config.key is None:
        raise BadSettings(
            "peer.key is not set: peers that share no key serve nobody, and are served by nobody.",
            asked="A peer was to be started.",
            kept="Nothing was started.",
            advice="Make one with `openssl rand -hex 32`, keep it in a file that only this user can read, give it to "
            "all peers, and name it with peer.key_file; or set HEADWATER_PEER__KEY.",
            key="peer.key",
        )
    return key_from(config.key)
