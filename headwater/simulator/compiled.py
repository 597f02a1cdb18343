"""Compiles our loops with numba, the rules' among them, and keeps the machine code between runs.

numba notices a change only in the file of the function that it keeps, not in those that the function calls. So the
folder where it keeps them is named after the sources of everything that is compiled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import platformdirs

from headwater.rules import cast as rules
from headwater.rules.cast import choice, deadlines, fallback, importers
from headwater.rules.errors import BadSettings

try:
    import numba
    from numba.experimental import structref
except ModuleNotFoundError as error:
    raise BadSettings(
        "numba is not installed.",
        asked="A cast was to be simulated.",
        kept="Nothing was computed.",
        advice="Install it: pip install 'headwater[simulate]'.",
    ) from error

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=NamedTuple)


def _sources() -> str:
    folders = [Path(__file__).parent, Path(rules.__file__).parent]
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(str(path).encode() + path.read_bytes())
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
in_flight = inlined(choice.in_flight)
deadline_seconds = inlined(deadlines.deadline_seconds)
verdict = inlined(deadlines.verdict)
offers = inlined(fallback.offers)
offered_to = inlined(fallback.offered_to)
is_due = inlined(fallback.is_due)
may_import = inlined(fallback.may_import)
ways_in = inlined(fallback.ways_in)
children = inlined(importers.children)


class Reference(structref.StructRefProxy):
    """Base of the classes that ``by_reference`` completes."""


def by_reference(reference: type, kind: type, fields: type[T]) -> Callable[[T], T]:
    """How a tuple of this type is given to compiled functions by one address, as ``reference`` of numba's ``kind``.

    They could take the tuple itself, but each call between them would hand on every array: compiling takes minutes.
    Both classes must be known to their module by name, or nothing is kept for the next process.
    """
    library: Any = structref
    library.define_proxy(reference, library.register(kind), list(fields._fields))
    return lambda values: cast(T, reference(*values))
