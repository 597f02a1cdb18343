"""What the probe measures and refuses, and the thumbnail; on files that PyAV made here, whole and damaged."""

from __future__ import annotations

import hashlib
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from headwater.connectors.media import BadOutput, Probed, probe, thumbnail


def movie(
    path: Path,
    *,
    frames: int,
    size: tuple[int, int] = (128, 64),
    kind: str = "mp4",
    codec: str = "mpeg4",
    noise: bool = False,
) -> Path:
    """Frames at 10 a second that grow brighter, or are noise, of which most of the file is picture data."""
    chance = np.random.default_rng(1)
    with av.open(str(path), "w", format=kind) as made:
        stream = made.add_stream(codec, rate=10)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.gop_size = 5
        for number in range(frames):
            picture = np.full((size[1], size[0], 3), 250 * number // frames, dtype=np.uint8)
            if noise:
                picture = chance.integers(0, 255, picture.shape, dtype=np.uint8)
            made.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        made.mux(stream.encode(None))
    return path


def test_a_video_is_measured_by_its_frames(tmp_path):
    path = movie(tmp_path / "video.mp4", frames=25)

    assert probe(path, "mp4") == Probed(
        container="mp4",
        bytes=path.stat().st_size,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        seconds=2.5,
        frames=25,
        width=128,
        height=64,
        codec="mpeg4",
    )


def test_bytes_are_known_by_length_and_hash_alone(tmp_path):
    (tmp_path / "output.bin").write_bytes(b"12345")

    probed = probe(tmp_path / "output.bin", "bytes")

    assert (probed.bytes, probed.sha256, probed.frames) == (5, hashlib.sha256(b"12345").hexdigest(), 0)


@pytest.mark.parametrize("container", ["mp4", "bytes"])
def test_what_is_missing_or_empty_is_refused(tmp_path, container):
    (tmp_path / "empty").touch()

    for name in ("none", "empty"):
        with pytest.raises(BadOutput, match=name) as raised:
            probe(tmp_path / name, container)
        assert raised.value.facts["code"] == "bad_output"


def test_another_container_is_refused(tmp_path):
    with pytest.raises(BadOutput, match="matroska"):
        probe(movie(tmp_path / "video.mp4", frames=5, kind="matroska"), "mp4")


def test_sound_alone_is_no_video(tmp_path):
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w", format="mp4") as made:
        stream = made.add_stream("aac", rate=48_000)
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 4096), dtype=np.float32), format="fltp", layout="mono")
        silence.sample_rate = 48_000
        made.mux(stream.encode(silence))
        made.mux(stream.encode(None))

    with pytest.raises(BadOutput, match="no video"):
        probe(path, "mp4")


def test_text_that_is_called_mp4_is_refused(tmp_path):
    (tmp_path / "video.mp4").write_text('{"error": "busy"}' * 100)

    with pytest.raises(BadOutput, match="no playable mp4"):
        probe(tmp_path / "video.mp4", "mp4")


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9, 0.97])
def test_a_video_that_was_cut_off_is_refused(tmp_path, part):
    whole = movie(tmp_path / "video.mp4", frames=50, codec="libx264").read_bytes()
    (tmp_path / "video.mp4").write_bytes(whole[: int(len(whole) * part)])

    with pytest.raises(BadOutput):
        probe(tmp_path / "video.mp4", "mp4")


def test_a_video_whose_header_comes_first_and_whose_frames_were_cut_off_is_refused(tmp_path):
    path = tmp_path / "video.mp4"
    slow = movie(tmp_path / "slow.mp4", frames=50, codec="libx264")
    fast = av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"})
    with av.open(str(slow)) as source, fast:
        stream = fast.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                fast.mux(packet)
    assert probe(path, "mp4").frames == 50
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.9)])

    with pytest.raises(BadOutput):
        probe(path, "mp4")


def test_a_video_with_a_damaged_frame_is_refused(tmp_path):
    path = movie(tmp_path / "video.mp4", frames=20, noise=True)
    video = bytearray(path.read_bytes())
    video[len(video) // 3 : len(video) // 3 + 40] = b"\x5a" * 40
    path.write_bytes(video)

    with pytest.raises(BadOutput, match="damaged"):
        probe(path, "mp4")


def test_the_thumbnail_is_the_middle_of_the_video_and_small(tmp_path):
    thumbnail(movie(tmp_path / "video.mp4", frames=50, size=(1280, 720)), tmp_path / "small.jpg")

    with Image.open(tmp_path / "small.jpg") as picture:
        assert (picture.format, picture.size) == ("JPEG", (320, 180))
        assert picture.convert("L").getpixel((160, 90)) == pytest.approx(125, abs=25)  # of 0 to 250


def test_a_video_of_one_frame_has_a_thumbnail(tmp_path):
    thumbnail(movie(tmp_path / "video.mp4", frames=1, size=(64, 64)), tmp_path / "small.jpg")

    with Image.open(tmp_path / "small.jpg") as picture:
        assert picture.size == (64, 64)


def test_what_is_no_video_has_no_thumbnail(tmp_path):
    (tmp_path / "video.mp4").write_bytes(b"no video")

    with pytest.raises(BadOutput):
        thumbnail(tmp_path / "video.mp4", tmp_path / "small.jpg")
