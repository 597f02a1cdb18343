"""Compiles our loops with numba, the rules' among them, and keeps the machine code between runs.

numba notices a change only in the file of the function that it keeps, not in those that the function calls. So the
folder where it keeps them is named after the sources of everything that is compiled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import platformdirs

from headwater.rules import cast as rules
from headwater.rules.cast import choice, deadlines, fallback, importers
from headwater.rules.errors import BadSettings

try:
    import numba
except ModuleNotFoundError as error:
    raise BadSettings(
        "numba is not installed.",
        asked="A cast was to be simulated.",
        kept="Nothing was computed.",
        advice="Install it: pip install 'headwater[simulate]'.",
    ) from error

F = TypeVar("F", bound=Callable[..., Any])


def _sources() -> str:
    folders = [Path(__file__).parent, Path(rules.__file__).parent]
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


_KEPT = Path(platformdirs.user_cache_dir("headwater")) / "simulator" / _sources()


def compiled(function: F) -> F:
    """The function as machine code: compiled when it is first called, kept for the next process."""
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, str(_KEPT)
    try:
        return cast(F, numba.njit(cache=True)(function))
    finally:
        config.CACHE_DIR = before


def inlined(function: F) -> F:
    """The function for use inside compiled ones."""
    return cast(F, numba.njit(function))


next_chunk = inlined(choice.next_chunk)
endgame_chunk = inlined(choice.endgame_chunk)
source_of = inlined(choice.source_of)
admits = inlined(choice.admits)
deadline_seconds = inlined(deadlines.deadline_seconds)
verdict = inlined(deadlines.verdict)
offers = inlined(fallback.offers)
offered_to = inlined(fallback.offered_to)
is_due = inlined(fallback.is_due)
may_import = inlined(fallback.may_import)
ways_in = inlined(fallback.ways_in)
children = inlined(importers.children)
