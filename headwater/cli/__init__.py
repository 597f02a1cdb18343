"""The command line: ``headwater``."""

from headwater.cli.app import main

__all__ = ["main"]
