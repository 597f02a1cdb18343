"""What the agent remembers between runs: one SQLite file, one table a module."""

from headwater.producers.filesystem.index.database import Index

__all__ = ["Index"]
