"""What a finished output is: its bytes and their hash, and of a video what its frames say, not only its header.

Everything here is CPU work that comes after the model: it runs in threads (PyAV gives up the interpreter's lock).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headwater.rules.errors import Permanent

if TYPE_CHECKING:
    from av.container import InputContainer

_HASHED_BYTES = 1 << 20


class BadOutput(Permanent):
    """A model's output is not what it should be. ``facts`` hold the failure's code."""

    def __init__(self, happened: str) -> None:
        super().__init__(
            happened,
            asked="The output of a model was probed.",
            kept="It is no result; the job's attempt has failed.",
            advice="See what the model's back end writes.",
            code="bad_output",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """One output. What only a video has is 0 or empty for mere bytes."""

    container: str
    bytes: int
    sha256: str
    seconds: float = 0.0
    frames: int = 0
    width: int = 0
    height: int = 0
    codec: str = ""


def probe(path: Path, container: Literal["mp4", "bytes"]) -> Probed:
    """Measures the file at ``path``. Of an MP4 each frame is decoded and counted: a header proves nothing.

    Raises BadOutput where there is none, it is empty, another container, without video, or does not decode to its end.
    """
    size, digest = _hashed(path)
    if container == "bytes":
        return Probed(container=container, bytes=size, sha256=digest)
    import av  # the extra ``worker``

    try:
        with av.open(str(path)) as video:
            if container not in video.format.name.split(","):
                raise BadOutput(f"{path.name} is {video.format.name}, not {container}.")
            return _measured(video, size, digest)
    except av.FFmpegError as error:
        raise BadOutput(f"{path.name} is no playable {container}: {error.strerror or error}.") from error


def _hashed(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_HASHED_BYTES):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise BadOutput(f"{path.name} cannot be read: {error.strerror}.") from error
    if size == 0:
        raise BadOutput(f"{path.name} is empty.")
    return size, digest.hexdigest()


def _measured(video: InputContainer, size: int, digest: str) -> Probed:
    if not video.streams.video:
        raise BadOutput("It holds no video stream.")
    stream = video.streams.video[0]
    stream.thread_type = "AUTO"
    frames, end = 0, 0.0
    for frame in video.decode(stream):
        if frame.is_corrupt:
            raise BadOutput(f"Its frame {frames} is damaged.")
        frames += 1
        if frame.time is not None and frame.time_base is not None:
            end = max(end, frame.time + float((frame.duration or 0) * frame.time_base))
    if frames == 0:
        raise BadOutput("It holds no frame.")
    if stream.frames and frames < stream.frames:
        raise BadOutput(f"It holds {frames} frames that can be played, but announces {stream.frames}.")
    return Probed(
        container="mp4",
        bytes=size,
        sha256=digest,
        seconds=round(end, 3),
        frames=frames,
        width=stream.width,
        height=stream.height,
        codec=stream.codec_context.name,
    )
