"""Commit: turns verified states of files into numbered versions of a dataset."""

from headwater.streams.commit.committer import CommitConfig, Committer

__all__ = ["CommitConfig", "Committer"]
