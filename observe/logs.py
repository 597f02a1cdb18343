"""Structured logs: one event a line, with the identity of its subject (source, path, group, hash, version).

Write ``log = logs.logger()`` at the top of a module and ``log.info("object.stored", hash=…)``: event names are
``noun.verb``, values are keyword arguments, nothing is formatted into the event.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def logger() -> Any:
    """A logger; cheap, made once a module."""
    return structlog.get_logger()


def configure(*, level: str = "info", as_json: bool | None = None) -> None:
    """Set up logging for this process, on stderr. ``as_json`` None: JSON unless a person watches (a terminal)."""
    if as_json is None:
        as_json = not sys.stderr.isatty()
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
