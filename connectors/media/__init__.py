"""What a model's output is, measured, and a picture of it."""

from headwater.connectors.media.probing import BadOutput, Probed, probe
from headwater.connectors.media.thumbnail import thumbnail

__all__ = ["BadOutput", "Probed", "probe", "thumbnail"]
