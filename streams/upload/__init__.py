"""Upload: from changes of files to stored objects. Two lanes, each a consumer group of its site."""

from __future__ import annotations

from headwater.streams.upload.config import UploadConfig
from headwater.streams.upload.files_lane import FilesLane
from headwater.streams.upload.parts_lane import PartsLane

__all__ = ["FilesLane", "PartsLane", "UploadConfig"]
