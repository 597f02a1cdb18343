"""H.264 in MP4, in pieces that can be continued: every group of pictures is encoded on its own.

So the frames that an earlier attempt encoded are taken over as they are, and the video of a resumed attempt is the
same, byte for byte, as that of one that ran through.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from av import Packet
    from av.video.codeccontext import VideoCodecContext
    from PIL.Image import Image

FRAMES_PER_SECOND = 8
GROUP_FRAMES = 8
_CODEC = "libx264"
# One thread and no B frames: the same packets on every machine with the same library, in the order of their frames.
_OPTIONS = {"preset": "ultrafast", "crf": "23", "bf": "0", "flags": "+global_header+bitexact"}
_TIME_BASE = Fraction(1, FRAMES_PER_SECOND)


class Clip:
    """The encoded frames so far."""

    def __init__(self, width: int, height: int) -> None:
        self._size = width, height
        self._packets: list[Packet[Any]] = []

    @classmethod
    def read(cls, path: Path, width: int, height: int) -> Clip:
        """The frames of an MP4 that ``write`` made, at this size. Raises ValueError for any other."""
        import av

        clip = cls(width, height)
        try:
            with av.open(str(path)) as video:
                stream = video.streams.video[0]
                if (stream.width, stream.height) != (width, height) or stream.average_rate != FRAMES_PER_SECOND:
                    raise ValueError(f"{path.name} is another video's checkpoint")
                for packet in video.demux(stream):
                    if packet.size:
                        clip._add(_start_codes(bytes(packet)), packet.is_keyframe)
        except (av.FFmpegError, IndexError) as error:
            raise ValueError(f"{path.name} is no checkpoint: {error}") from error
        return clip

    @property
    def frames(self) -> int:
        return len(self._packets)

    def append(self, images: Sequence[Image]) -> None:
        """Encodes one group of pictures, at most ``GROUP_FRAMES``; only the last of a video may be shorter."""
        import av

        context: VideoCodecContext = av.CodecContext.create(_CODEC, "w")  # type: ignore[assignment]
        self._set(context)
        context.time_base = _TIME_BASE
        context.framerate = Fraction(FRAMES_PER_SECOND)
        context.gop_size = GROUP_FRAMES
        packets = []
        for number, image in enumerate(images):
            drawn = av.VideoFrame.from_image(image)  # type: ignore[no-untyped-call]
            frame = drawn.reformat(format="yuv420p")
            frame.pts, frame.time_base = number, _TIME_BASE
            packets += context.encode(frame)
        for packet in (*packets, *context.encode(None)):
            self._add(bytes(packet), packet.is_keyframe)

    def write(self, path: Path) -> None:
        """The frames so far as a playable MP4."""
        import av

        movie = av.open(str(path), "w", format="mp4", options={"movflags": "+faststart", "fflags": "+bitexact"})
        with movie:
            stream = movie.add_stream(_CODEC, rate=FRAMES_PER_SECOND)
            self._set(stream.codec_context)
            stream.time_base = _TIME_BASE
            for packet in self._packets:
                packet.stream = stream
                movie.mux(packet)

    def _set(self, context: Any) -> None:
        context.width, context.height = self._size
        context.pix_fmt = "yuv420p"
        context.thread_count = 1
        context.options = _OPTIONS

    def _add(self, encoded: bytes, is_keyframe: bool) -> None:
        from av import Packet

        packet = Packet(encoded)
        packet.pts = packet.dts = self.frames
        packet.duration = 1
        packet.time_base = _TIME_BASE
        packet.is_keyframe = is_keyframe
        self._packets.append(packet)


def _start_codes(packet: bytes) -> bytes:
    """A packet as the encoder gave it: MP4 has before each NAL unit its length (ISO/IEC 14496-15), and in four bytes;
    the encoder, and so the muxer that is to write it again, a start code (H.264, Annex B)."""
    units, at = [], 0
    while at < len(packet):
        end = at + 4 + int.from_bytes(packet[at : at + 4], "big")
        units.append(b"\0\0\0\1" + packet[at + 4 : end])
        at = end
    return b"".join(units)
