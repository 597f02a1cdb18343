"""The pictures: colour bars, the prompt, and what moves. Each frame follows from prompt, seed and number alone."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from typing import TYPE_CHECKING

from blake3 import blake3

if TYPE_CHECKING:
    from PIL.Image import Image

_BARS = ((192, 192, 192), (192, 192, 0), (0, 192, 192), (0, 192, 0), (192, 0, 192), (192, 0, 0), (0, 0, 192))
"""The colours of SMPTE ECR 1-1978, at 75 %."""
_INK, _PAPER = (255, 255, 255), (16, 16, 16)


class Card:
    """The test card of one prompt and seed. ``width`` and ``height`` are even numbers of pixels."""

    def __init__(self, prompt: str, seed: int, width: int, height: int) -> None:
        from PIL import Image, ImageDraw, ImageFont  # the extra ``worker``

        chance = blake3(f"{seed}\n{prompt}".encode(errors="replace")).digest()
        self._speed = 1 + chance[0] % 4
        self._accent = tuple(round(255 * part) for part in colorsys.hsv_to_rgb(chance[1] / 256, 0.8, 1.0))
        self._line = max(2, height // 20)
        self._font = ImageFont.load_default(self._line * 1.2)
        self._still = Image.new("RGB", (width, height), _PAPER)
        draw = ImageDraw.Draw(self._still)
        first = chance[2] % len(_BARS)
        for place in range(len(_BARS)):
            left, right = (width * edge // len(_BARS) for edge in (place, place + 1))
            draw.rectangle((left, 0, right, height * 3 // 5), _BARS[(first + place) % len(_BARS)])
        most = max(1, height // 4 // round(self._line * 1.5))
        for number, text in enumerate(
            _lines(prompt, lambda text: draw.textlength(text, self._font) < width * 0.9, most)
        ):
            draw.text((width // 20, height * 5 // 8 + number * round(self._line * 1.5)), text, _INK, self._font)

    def frame(self, number: int, frames: int) -> Image:
        """Frame ``number`` of ``frames``: a line sweeps over the bars, and below them a bar grows."""
        from PIL import ImageDraw

        image = self._still.copy()
        draw = ImageDraw.Draw(image)
        width, height = image.size
        sweep = number * self._speed * width // 48 % width
        draw.rectangle((sweep, 0, sweep + self._line // 2, height * 3 // 5), self._accent)
        draw.text((width // 20, height // 30), f"{number + 1}/{frames}", _PAPER, self._font)
        done = width * (number + 1) // frames
        draw.rectangle((0, height - self._line, done, height), self._accent)
        return image


def _lines(prompt: str, fits: Callable[[str], bool], most: int) -> list[str]:
    """The prompt in at most ``most`` lines that fit; one that has more ends with an ellipsis."""
    lines = [""]
    for word in "".join(one if one.isprintable() else " " for one in prompt).split():
        longer = f"{lines[-1]} {word}".strip()
        if fits(longer):
            lines[-1] = longer
        else:
            lines.append(word)
        if len(lines) > most:
            return [*lines[: most - 1], _cut(lines[most - 1] + "…", fits)]
    return [_cut(line, fits) for line in lines]


def _cut(line: str, fits: Callable[[str], bool]) -> str:
    while line and not fits(line):
        line = line[:-2] + "…" if len(line) > 2 else ""
    return line
