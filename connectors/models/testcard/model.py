"""The test card as a model: a step is a frame, a checkpoint is the video so far."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.connectors.models.pausing import pause
from headwater.connectors.models.protocol import Course, Outcome, Output, Stopped, Wish, Work
from headwater.connectors.models.testcard import faults
from headwater.connectors.models.testcard.card import Card
from headwater.connectors.models.testcard.clip import FRAMES_PER_SECOND, GROUP_FRAMES, Clip
from headwater.rules.jobs.capabilities import Capabilities, pixels

if TYPE_CHECKING:
    from PIL.Image import Image

_SIZES = ("640x360", "360x640", "1280x720", "720x1280", "320x180", "64x64")
_SECONDS_PER_PIXEL = 2e-8
"""Of drawing and encoding one frame on one core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestcardConfig:
    load_seconds: float = 0.0
    """How long it takes to load, as if there were weights."""
    step_seconds: float = 0.0
    """How long each frame takes at least, as if there were a GPU."""
    step_limit_seconds: float = 10.0
    max_seconds: int = 60
    max_batch: int = 1
    checkpoint_groups: int = 1
    """A checkpoint after so many groups of 8 frames, which are a second of video."""
    faults: bool = False
    """Requests may ask it to fail, crash, hang, …: for tests and demonstrations."""


class Testcard:
    def __init__(self, config: TestcardConfig) -> None:
        self._config = config

    def capabilities(self) -> Capabilities:
        properties = {"seed": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1, "default": 0}}
        if self._config.faults:
            properties |= faults.SCHEMA
        return Capabilities(
            sizes=_SIZES,
            max_seconds=self._config.max_seconds,
            parameters={"type": "object", "properties": properties, "additionalProperties": False},
            checkpoints=True,
            max_batch=self._config.max_batch,
            step_limit_seconds=self._config.step_limit_seconds,
            load_limit_seconds=self._config.load_seconds + 60.0,
            gpu_seconds_per_second={size: self._cost(size) for size in _SIZES},
        )

    def load(self) -> None:
        import av  # noqa: F401  (slow to import, and missing where the extra ``worker`` is: now is the time to know)
        import PIL.ImageFont  # noqa: F401

        time.sleep(self._config.load_seconds)

    def generate(self, batch: Sequence[Work], course: Course) -> Sequence[Outcome]:
        renderings = [Rendering(work, self._config, course) for work in batch]
        steps = max(rendering.frames for rendering in renderings)
        for step in range(min(rendering.begun for rendering in renderings), steps):
            for rendering in renderings:
                rendering.advance(step)
            if all(rendering.stopped for rendering in renderings):
                break
            course.step(step + 1, steps)
        return [rendering.outcome() for rendering in renderings]

    def _cost(self, size: str) -> float:
        width, height = pixels(size)
        return FRAMES_PER_SECOND * (self._config.step_seconds + width * height * _SECONDS_PER_PIXEL)


class Rendering:
    """One work's video on its way."""

    def __init__(self, work: Work, config: TestcardConfig, course: Course) -> None:
        self._work = work
        self._config = config
        self._course = course
        self._size = pixels(work.size)
        self._card = Card(work.prompt, work.parameters.get("seed", 0), *self._size)
        self._clip = self._resumed()
        self._group: list[Image] = []
        self._step_seconds = work.parameters.get("step_seconds", config.step_seconds)
        self.frames = work.seconds * FRAMES_PER_SECOND
        self.begun = self._clip.frames
        self._saved = self.begun
        self._next = self.begun
        self.stopped = False

    def advance(self, step: int) -> None:
        """Frame ``step``, if it is this one's next, and nobody wishes it to stop."""
        if self.stopped or step != self._next or step >= self.frames:
            return
        if self._wished_to_stop():
            self.stopped = True
            return
        faults.befall(self._work, step)
        self._group.append(self._card.frame(step, self.frames))
        self._next = step + 1
        if len(self._group) == GROUP_FRAMES or self._next == self.frames:
            self._clip.append(self._group)
            self._group = []
            if self._next < self.frames and self._next % (GROUP_FRAMES * self._config.checkpoint_groups) == 0:
                self._save()

    def _wished_to_stop(self) -> bool:
        """Lets the time of a step pass. Who is to leave saves the groups that are not in a checkpoint yet."""
        pause(self._step_seconds, [self._work], self._course)
        wish = self._course.wish(self._work)
        if wish is Wish.leave and self._clip.frames > self._saved:
            self._save()
        return wish is not Wish.go_on

    def _save(self) -> None:
        path = self._work.folder / f"checkpoint-{self._clip.frames}.mp4"
        self._clip.write(path)
        self._saved = self._clip.frames
        self._course.saved(self._work, self._saved, path)

    def outcome(self) -> Outcome:
        if self.stopped:
            return Stopped()
        path = self._work.folder / "video.mp4"
        self._clip.write(path)
        return Output(path)

    def _resumed(self) -> Clip:
        if self._work.resume is not None:
            try:
                return Clip.read(self._work.resume, *self._size)
            except ValueError as error:
                print(f"The checkpoint is left aside: {error}.")
        return Clip(*self._size)
