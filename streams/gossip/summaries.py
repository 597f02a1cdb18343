"""Writes the summaries of racks to cast.racks, and shows them as metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, Message

from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.headers import event_headers
from headwater.observe import logs, metrics
from headwater.rules.cast.bitmap import unpack
from headwater.schemas.cast_manifest import Manifest
from headwater.schemas.cast_records import CastRack
from headwater.schemas.codec import encode
from headwater.schemas.topics import CAST_RACKS

log = logs.logger()

REPEAT_SECONDS = 10.0
"""A rack that is complete is said again this often: who begins to read finds all of them in the last half minute."""
_MICROSECONDS = 1_000_000
_SETTINGS = {
    # A summary that could not be written before the next ones is worth nothing.
    "message_timeout_ms": 5_000,
    "queue_buffering_max_messages": 10_000,
}


class Summaries:
    """``trouble`` says why the last ones were not written; empty while they are. Used from one thread."""

    def __init__(self, kafka: Kafka) -> None:
        self._topic = kafka.physical(CAST_RACKS)
        self._producer = kafka.producer(**_SETTINGS)
        self._written: dict[tuple[int, str], tuple[CastRack, float]] = {}
        self.trouble = ""

    def write(self, summaries: Iterable[CastRack], now: float) -> None:
        """All but complete ones of which nothing new is to be said; waits for nothing. ``now``: seconds of a clock that
        does not jump."""
        self._producer.poll(0)
        said: dict[tuple[int, str], tuple[CastRack, float]] = {}
        for summary in summaries:
            subject = summary.epoch, summary.rack
            last = self._written.get(subject)
            if last is not None and _rests(last[0], summary) and now - last[1] < REPEAT_SECONDS:
                said[subject] = last
                continue
            said[subject] = summary, now
            self._produce(summary)
        self._written = said

    def close(self) -> None:
        self._producer.flush(1.0)
        self._producer.close()

    def _produce(self, summary: CastRack) -> None:
        headers: Any = event_headers(summary.at_us)
        try:
            self._producer.produce(
                self._topic, encode(summary), summary.key(), headers=headers, on_delivery=self._delivered
            )
        except BufferError as error:
            self._note(str(error))

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._note("" if error is None else error.str())

    def _note(self, trouble: str) -> None:
        if trouble and not self.trouble:
            log.warning("gossip.unwritten", error=trouble, kept="The next second's summaries say it anew.")
        self.trouble = trouble


def _rests(before: CastRack, now: CastRack) -> bool:
    return now.complete == now.hosts and replace(before, at_us=now.at_us) == now


class Export:
    """Shows what was summarised last. A rack or cast that is over takes its series with it."""

    def __init__(self) -> None:
        self._hosts: set[tuple[str, ...]] = set()
        self._chunks: set[tuple[str, ...]] = set()
        self._racks: set[tuple[str, ...]] = set()
        self._casts: set[tuple[str, ...]] = set()

    def show(self, shown: Iterable[tuple[Manifest, CastRack]], at_us: int) -> None:
        hosts: dict[tuple[str, ...], float] = {}
        chunks: dict[tuple[str, ...], float] = {}
        rates: dict[tuple[str, ...], float] = {}
        left: dict[tuple[str, ...], float] = {}
        for manifest, rack in shown:
            place = manifest.name, rack.rack
            hosts |= {(*place, state): count for state, count in _states(rack).items()}
            chunks |= {(*place, whose): share for whose, share in _shares(manifest, rack).items()}
            rates[place] = rack.bytes_per_second
            left[manifest.name,] = (manifest.expires_us - at_us) / _MICROSECONDS
        self._hosts = _replaced(metrics.CAST_HOSTS, self._hosts, hosts)
        self._chunks = _replaced(metrics.CAST_CHUNKS, self._chunks, chunks)
        self._racks = _replaced(metrics.CAST_BYTES, self._racks, rates)
        self._casts = _replaced(metrics.CAST_LEFT_SECONDS, self._casts, left)
        metrics.GOSSIP_TIME.set(at_us / _MICROSECONDS)


def _states(rack: CastRack) -> dict[str, int]:
    return {
        "there": rack.hosts,
        "complete": rack.complete,
        "installed": rack.installed,
        "slow": len(rack.slow),
        "silent": len(rack.silent),
    }


def _shares(manifest: Manifest, rack: CastRack) -> dict[str, float]:
    count = manifest.chunks.count
    together = int(unpack(rack.bits, count).sum())
    of = {"least": rack.least, "median": rack.median, "most": rack.most, "together": together}
    return {whose: chunks / count if count else 1.0 for whose, chunks in of.items()}


def _replaced(gauge: Any, shown: set[tuple[str, ...]], values: dict[tuple[str, ...], float]) -> set[tuple[str, ...]]:
    for labels, value in values.items():
        gauge.labels(*labels).set(value)
    for gone in shown - values.keys():
        gauge.remove(*gone)
    return set(values)
