"""The views of the fleet, as a Faust application.

reads   fleet.telemetry
writes  views.stages, views.groups (and its own table, views-samples-changelog)
effect  every ten seconds of the log's time, how much each stage carries and how each group is
safe    because a row of the table is only ever replaced by a later word of the same process, and a view at a time is
        made of the rows before it: what is read again after a crash says the same again, under the same key

Faust runs here as it was proved (notes in docs/decisions/110): at least once, one record at a time, no ``+=``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import faust

from headwater.connectors.kafka.client import Kafka
from headwater.observe import logs, metrics
from headwater.rules.errors import BadRecord
from headwater.rules.rates import bucket_of
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import Record, Telemetry
from headwater.schemas.topics import FLEET_TELEMETRY, VIEWS_GROUPS, VIEWS_STAGES, Topic
from headwater.streams.views.cluster import broker_settings
from headwater.streams.views.export import Export
from headwater.streams.views.picture import Picture, picture
from headwater.streams.views.table import Samples

log = logs.logger()

GROUP = "views"

_SETTINGS: dict[str, Any] = {
    "processing_guarantee": "at_least_once",
    "store": "memory://",
    # A member that dies is missed after this, not after Faust's minute.
    "broker_session_timeout": 10.0,
    "broker_heartbeat_interval": 3.0,
    # Topics are made by `headwater topics apply`, and there is one worker: no leader is needed.
    "topic_allow_declare": False,
    "topic_disable_leader": True,
    "topic_partitions": 1,
    # A second process waits without a copy of the table: it is small, and restored in a second.
    "table_standby_replicas": 0,
    "consumer_auto_offset_reset": "earliest",
    "web_enabled": False,
    "logging_config": None,
}


class Views:
    """One application, made and started once, in the event loop of one thread.

    ``failed`` is told of an error that the application cannot go on from.
    """

    def __init__(self, kafka: Kafka, failed: Callable[[BaseException], None]) -> None:
        """Raises BadSettings."""
        self._kafka = kafka
        self._failed = failed
        self.app = faust.App(kafka.group(GROUP), **broker_settings(kafka.config), **_SETTINGS)
        self._samples = Samples(self.app)
        self._topics = {topic: self._raw(topic) for topic in (FLEET_TELEMETRY, VIEWS_STAGES, VIEWS_GROUPS)}
        self._export = Export()
        self.taken = 0
        """Words taken so far, also those that could not be read."""
        self._open: int | None = None
        """The bucket of the newest record; None until the first one."""
        self.app.agent(self._topics[FLEET_TELEMETRY], concurrency=1, name="telemetry")(self._follow)

    def _raw(self, topic: Topic) -> Any:
        """Values are bytes to Faust: one that is no record of ours must not end the application."""
        return self.app.topic(
            self._kafka.physical(topic), key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
        )

    async def _follow(self, stream: Any) -> None:
        """The main loop."""
        try:
            async for event in stream.events():
                await self.take(event.value, event.message.timestamp)
                self.taken += 1
                metrics.GROUP_RECORDS.labels(GROUP).inc()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._failed(error)

    async def take(self, value: bytes, heard_at: float) -> None:
        """One word of a process; where it opens a bucket, the views at that time go out before it counts as read."""
        said = self._decoded(value)
        if said is not None:
            self._samples.file(said, heard_at)
        bucket = bucket_of(heard_at)
        if self._open is None or bucket > self._open:
            self._open = bucket
            await self.publish(picture(self._samples.rows(), bucket))
            self._samples.forget(bucket)

    async def publish(self, shown: Picture) -> None:
        """Write the views to the log, and wait until it has them."""
        sent = [await self._send(VIEWS_STAGES, stage) for stage in shown.stages]
        sent += [await self._send(VIEWS_GROUPS, group) for group in shown.groups]
        await asyncio.gather(*sent)
        self._export.show(shown)

    async def _send(self, topic: Topic, record: Record) -> Any:
        return await self._topics[topic].send(key=record.key(), value=encode(record), partition=0)

    def _decoded(self, value: bytes) -> Telemetry | None:
        try:
            record = decode(value)
        except BadRecord as error:
            log.warning("telemetry.unreadable", error=str(error), kept="It is skipped: the next word says it anew.")
            return None
        return record if isinstance(record, Telemetry) else None
