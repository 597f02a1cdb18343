"""lakeFS: the client that gives immutable objects their paths, branches, commits and tags."""

from headwater.connectors.lakefs.client import Commit, Difference, Entry, LakeFS
from headwater.connectors.lakefs.config import LakeFSConfig, check_repository_name

__all__ = ["Commit", "Difference", "Entry", "LakeFS", "LakeFSConfig", "check_repository_name"]
