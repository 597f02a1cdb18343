"""Structured logs: one event a line, with the identity of its subject (source, path, group, hash, version).

Write ``log = logs.logger()`` at the top of a module and ``log.info("object.stored", hash=…)``: event names are
``noun.verb``, values are keyword arguments, nothing is formatted into the event.
"""

from __future__ import annotations

import logging
import sys
import time
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


def adopt(*libraries: str) -> None:
    """Take in what libraries say through Python's own logging, from warnings up, and nothing else of them."""
    for name in libraries:
        library = logging.getLogger(name)
        library.handlers = [_Adopted()]
        library.setLevel(logging.WARNING)
        library.propagate = False


_REPEATED_SECONDS = 30.0


class _Adopted(logging.Handler):
    """One line a message; the same message again only after a while: a client whose server is away says it for ever."""

    def __init__(self) -> None:
        super().__init__()
        self._said_at: dict[tuple[str, object], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        said, now = (record.name, record.msg), time.monotonic()
        if now - self._said_at.get(said, -_REPEATED_SECONDS) < _REPEATED_SECONDS:
            return
        self._said_at[said] = now
        error = record.exc_info[1] if record.exc_info else None
        extra = {} if error is None else {"error": repr(error)}
        log = logger()
        say = log.error if record.levelno >= logging.ERROR else log.warning
        say("library.said", library=record.name, text=record.getMessage().strip(), **extra)
