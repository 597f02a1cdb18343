"""Chunks from one peer to another over real sockets: what arrives is proven, whatever the other side does."""

from __future__ import annotations

from typing import Any

from headwater.consumers.peer.bytes.fetch import Outcome

MIB = 1024 * 1024


def test_a_whole_file_arrives_and_is_served_on(fleet: Any) -> None:
    content = fleet.content(5 * MIB + 123)
    origin, first, second = fleet.giver(content.seed()), fleet.taker(), fleet.taker()
    mine = content.partial(fleet.into("one"))
    theirs = content.partial(fleet.into("two"))
    relay = fleet.giver(mine, host="relay")

    for chunk in range(6):
        assert first.get(origin, mine, chunk).outcome is Outcome.verified
        assert second.get(relay, theirs, chunk).outcome is Outcome.verified

    theirs.install(content.root)
    assert (fleet.folder / "two" / "w.bin").read_bytes() == content.data
    served = [relay.served.get(timeout=5) for _ in range(6)]
    assert [(one.chunk, one.whole, one.host) for one in served] == [(chunk, True, "taker") for chunk in range(6)]
    assert sum(one.bytes for one in served) == len(content.data)
