"""Follows the demo's jobs by their streams of events, as a user's program would."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock, Thread
from typing import Any

from headwater.connectors.api.client import Client
from headwater.rules.errors import HeadwaterError


class Streams:
    """One stream a job, in a thread each; a stream ends with its job."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._videos: dict[str, dict[str, Any]] = {}
        self._lock = Lock()
        self._failure: HeadwaterError | None = None

    def follow(self, video: dict[str, Any]) -> None:
        """From now on, until it ends. ``video``: as the service answered."""
        self._videos[video["id"]] = dict(video)
        Thread(target=self._read, args=(video["id"],), name="stream", daemon=True).start()

    def videos(self) -> Sequence[dict[str, Any]]:
        """As they are now, in the order in which they are followed. Raises what ended a stream before its job."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return [dict(video) for video in self._videos.values()]

    def of(self, job: str) -> dict[str, Any]:
        return next(video for video in self.videos() if video["id"] == job)

    def _read(self, job: str) -> None:
        try:
            for event in self._client.events(job):
                with self._lock:
                    self._videos[job] |= event.data
        except HeadwaterError as error:
            with self._lock:
                self._failure = error
