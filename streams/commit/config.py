"""Settings of the committer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommitConfig:
    """When a dataset gets a version, and where it lives."""

    dataset: str
    repository: str | None = None
    """lakeFS repository; None: it has the dataset's name."""
    every_seconds: float = 600.0
    """The longest that verified changes wait for a version: fresh enough to train on, few enough to look through."""
    changes: int = 100_000
    """A version is made earlier when so many changes wait: lakeFS commits 100,000 paths well, and ten times as many
    slowly."""
    poll_seconds: float = 0.5
    """How soon a requested commit is noticed; one small query each."""
    retry_seconds: float = 0.5
    retry_most_seconds: float = 30.0

    @property
    def lakefs_repository(self) -> str:
        return self.repository or self.dataset
