"""A single run: it ends when every path is verified or named, and only makes sense while somebody uploads."""

from __future__ import annotations

from time import monotonic

from confluent_kafka import KafkaError, KafkaException

from headwater.connectors.kafka.client import Kafka
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.owner import Owner
from headwater.producers.filesystem.status import AgentStatus
from headwater.rules.errors import Unavailable

_CHECK_SECONDS = 15.0
"""How often the run makes sure that uploaders still live."""

_GRACE_SECONDS = 60.0
"""A group that rebalances or restarts has no member for a moment; after this long it is gone."""

_NAMED_LIMIT = 1_000
"""Pending paths that are compared with the catalog's exceptions: beyond it, work is surely still going on."""


class Once:
    def __init__(self, config: AgentConfig, kafka: Kafka, owner: Owner, index: Index) -> None:
        self._config = config
        self._kafka = kafka
        self._owner = owner
        self._index = index
        self._check_at = monotonic() + _CHECK_SECONDS
        self._seen_at = monotonic()

    def require_uploaders(self) -> None:
        """Raises Unavailable where one of the site's two upload groups has no member."""
        missing = [group for group in self._groups() if not self._has_members(group)]
        if missing:
            commands = " and ".join(
                f"`headwater run {group.removesuffix('.' + self._config.site)}`" for group in missing
            )
            raise Unavailable(
                f"no uploader lives: {' and '.join(missing)} {'has' if len(missing) == 1 else 'have'} no member.",
                asked=f"To sync source {self._config.source!r} once, until everything is verified:",
                kept="What was found is kept in the index.",
                advice=f"Start {commands} for site {self._config.site!r}, or `headwater up`.",
            )

    def is_finished(self, status: AgentStatus) -> bool:
        """Is each path verified or named? Raises Unavailable when the uploaders went away."""
        self._watch_uploaders()
        held = 0 if status.deletes_halted else status.held
        working = status.dirty + status.settling + status.reading + held + status.outbox
        if not status.walked or status.halted or working or self._owner.complete_to < status.seq:
            return False
        return status.pending == 0 or self._all_named()

    def _all_named(self) -> bool:
        pending = self._index.files.pending(-1, self._index.seq, _NAMED_LIMIT)
        if len(pending) == _NAMED_LIMIT:
            return False
        paths = [path.path for path in pending]
        unknown = [path for path in paths if self._index.exceptions.reason(path) is None]
        return not unknown or self._owner.excepted_among(unknown) == set(unknown)

    def _watch_uploaders(self) -> None:
        if monotonic() < self._check_at:
            return
        self._check_at = monotonic() + _CHECK_SECONDS
        if all(self._has_members(group) for group in self._groups()):
            self._seen_at = monotonic()
        elif monotonic() - self._seen_at > _GRACE_SECONDS:
            self.require_uploaders()

    def _groups(self) -> tuple[str, str]:
        return f"upload-files.{self._config.site}", f"upload-parts.{self._config.site}"

    def _has_members(self, group: str) -> bool:
        name = self._kafka.group(group)
        try:
            found = self._kafka.admin().describe_consumer_groups([name], request_timeout=10.0)[name].result()
        except KafkaException as error:
            cause = error.args[0]
            if isinstance(cause, KafkaError) and cause.code() == KafkaError.GROUP_ID_NOT_FOUND:
                return False
            raise self._kafka.mapped(error, asked=f"The members of group {name} were to be listed.") from error
        return bool(found.members)
