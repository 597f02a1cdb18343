"""One picture of a video, for lists."""

from __future__ import annotations

from pathlib import Path

from headwater.connectors.media.probing import BadOutput

_LONGEST_SIDE = 320
_QUALITY = 80


def thumbnail(path: Path, into: Path) -> None:
    """Writes a JPEG of the video's middle frame (the first ones are often black), at most 320 pixels to a side.

    Raises BadOutput where no frame can be decoded.
    """
    import av  # the extra ``worker``

    try:
        with av.open(str(path)) as video:
            stream = video.streams.video[0]
            if stream.duration:
                video.seek((stream.start_time or 0) + stream.duration // 2, stream=stream)
            image = next(video.decode(stream)).to_image()  # type: ignore[no-untyped-call]
    except (av.FFmpegError, StopIteration, IndexError) as error:
        raise BadOutput(f"{path.name} gives no picture: {error or 'it holds no frame'}.") from error
    image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    image.save(into, "JPEG", quality=_QUALITY)
