"""How results reach people and programs: tables and words on a terminal, JSON on request.

Results go to stdout, errors and logs to stderr, so that ``headwater … --json | jq`` sees results only.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.rules.identity import HASH_BYTES

if TYPE_CHECKING:
    from headwater.connectors.catalog.deferred import PutOff

WIDTH_OF_LOGS = 120
"""Where no terminal tells its width, a table may be this wide."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever reads, such as `head`, has seen enough: no failure of ours."""
        raise BrokenPipeError


def console(*, errors: bool = False) -> Console:
    """A console for results, or for errors. Made anew each time, since tests and pipes replace the streams."""
    stream = sys.stderr if errors else sys.stdout
    told = stream.isatty() or "COLUMNS" in os.environ
    return _Console(file=stream, highlight=False, width=None if told else WIDTH_OF_LOGS)


def say(to: Console, text: str | Text) -> None:
    """A sentence: broken between words on a terminal, one line everywhere else."""
    to.print(text, soft_wrap=not to.is_terminal)


def plain(value: Any) -> Any:
    """The value as JSON has it: hashes as hex, other bytes as text or, where they are not, as {"hex": …}."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return _plain_bytes(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    return value


def _plain_bytes(value: bytes) -> Any:
    if len(value) == HASH_BYTES:
        return value.hex()
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def print_json(value: Any, *, lines: bool = False) -> None:
    """One JSON document, indented for a terminal; ``lines``: one of many, each on a line of its own."""
    indent = 2 if not lines and sys.stdout.isatty() else None
    print(json.dumps(plain(value), indent=indent, ensure_ascii=False), flush=True)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str = "",
    right: Iterable[str] = (),
    whole: Iterable[str] = (),
) -> Table:
    """A table of texts; ``right`` names the columns of numbers, ``whole`` those that are never broken over lines, such
    as names that people copy. Values are shown as they are: no markup in them."""
    made = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, show_edge=False)
    numbers, unbroken = set(right), set(whole)
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        made.add_column(column, justify=justify, overflow="fold", no_wrap=column in unbroken)
    for row in rows:
        made.add_row(*(value if isinstance(value, Text) else Text(str(value)) for value in row))
    return made


def size(count: float) -> str:
    """Bytes for people: 1,023 B, 12.3 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    raise AssertionError("the loop returns")


def duration(seconds: float) -> str:
    """Seconds for people: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, length, below, below_length in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            return f"{whole // length} {unit} {whole % length // below_length} {below}"
    return f"{whole} s"


def put_off(waiting: PutOff) -> str:
    """What waits for a root, for people: 12 contents wait for its root, for 3 h 0 min: its root …"""
    count = f"{waiting.count:,}{' or more' if waiting.or_more else ''}"
    contents = f"{count} contents wait" if waiting.count != 1 else "1 content waits"
    return f"{contents} for its root, for {duration(waiting.seconds)}: {waiting.reason.rstrip('.')}"


def rate(per_second: float | None) -> str:
    """Records a second for people; a minute where they are few."""
    if per_second is None:
        return ""
    if 0 < abs(per_second) < 1:
        return f"{per_second * 60:.1f}/min"
    return f"{per_second:,.0f}/s" if abs(per_second) >= 10 else f"{per_second:.1f}/s"


def moment(timestamp_ms: int) -> str:
    """A time for people, in this machine's time zone."""
    return datetime.fromtimestamp(timestamp_ms / 1000).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
