"""Names that are one name to whoever folds case or Unicode form: Windows, macOS, SMB shares, ext4 with casefold.

On the source's disk ``A.jpg`` and ``a.jpg``, or an accented letter in one code point (NFC) and in two (NFD), are
different files, and a dataset keeps them so. Such a reader has one place for the two.

Names fold together here when they are a canonical caseless match (The Unicode Standard, chapter 3, D145) once the code
points that ext4 and HFS+ ignore are left out (the property Default_Ignorable_Code_Point). Filesystems have tables of
their own, most of them narrower: what is found here may collide, and the filesystem itself has the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from unicodedata import normalize

from headwater.rules.identity import display

_IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


@dataclass(frozen=True, slots=True)
class Collision:
    """Two names of one directory that fold together, by their paths. Each may be a file's or a directory's."""

    first: bytes
    other: bytes

    def __str__(self) -> str:
        """Both paths for people; the names by their code points where they look alike."""
        names = [display(path.rpartition(b"/")[2]) for path in (self.first, self.other)]
        if len({normalize("NFC", _IGNORED.sub("", name)) for name in names}) == 1:
            names = [ascii(name)[1:-1] for name in names]
        above = display(self.first[: self.first.rfind(b"/") + 1])
        return " and ".join(f"{above}{name}" for name in names)


@dataclass(slots=True)
class _Directory:
    """The names that were met in one directory."""

    firsts: dict[bytes, bytes] = field(default_factory=dict)
    others: set[bytes] = field(default_factory=set)

    def meet(self, name: bytes) -> bytes | None:
        """The name that was there first, where a new one folds together with it."""
        first = self.firsts.setdefault(folded(name), name)
        if first == name or name in self.others:
            return None
        self.others.add(name)
        return first


def folded(name: bytes) -> bytes:
    """What all names that fold together have in common; of a name that is no UTF-8, the name itself."""
    if name.isascii():
        return name.lower()
    try:
        text = _IGNORED.sub("", name.decode())
    except UnicodeDecodeError:
        return name
    return normalize("NFD", normalize("NFD", text).casefold()).encode()


def collisions(paths: Iterable[bytes]) -> Iterator[Collision]:
    """The names among ``paths`` and the directories above them that fold together with another in their directory.

    ``paths`` come in the order of their bytes, as ``sorted`` gives them: then a directory's come together, and what is
    held are the names of the directories on the way to one path. Of three names two collisions are found, each with
    the first. Where directories collide, what lies in them is not compared: the directories are named.
    """
    way: list[bytes] = []
    directories = [_Directory()]  # the topmost, and one for each name on the way
    for path in paths:
        *parents, name = path.split(b"/")
        known = _common(way, parents)
        del way[known:], directories[known + 1 :]
        for part in [*parents[known:], name]:
            if (first := directories[-1].meet(part)) is not None:
                yield Collision(b"/".join([*way, first]), b"/".join([*way, part]))
            way.append(part)
            directories.append(_Directory())


def _common(one: list[bytes], other: list[bytes]) -> int:
    """How many parts two paths share from their beginning."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
