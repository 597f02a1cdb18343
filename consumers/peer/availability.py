"""What a peer says of its chunks once a second: all of them now and then, else what came since it said so last."""

from __future__ import annotations

import numpy as np

from headwater.rules.cast.bitmap import Bits, pack
from headwater.schemas.cast_records import CastAvailability

_WHOLE_EVERY = 10
"""Who reads from some point on knows everything after so many records."""


class Availability:
    """Of one incarnation in one cast of ``count`` chunks."""

    def __init__(self, epoch: int, incarnation: int, count: int) -> None:
        self._epoch, self._incarnation = epoch, incarnation
        self._said: Bits = np.zeros(count, np.bool_)
        self._sequence = 0

    def next(self, number: int, had: Bits, bytes_per_second: int) -> CastAvailability:
        """The next record, which must then be said: those that follow build upon it."""
        whole = self._sequence % _WHOLE_EVERY == 0
        record = CastAvailability(
            epoch=self._epoch,
            number=number,
            incarnation=self._incarnation,
            sequence=self._sequence,
            base=None if whole else self._sequence - 1,
            bits=pack(had if whole else had & ~self._said),
            chunks=int(had.sum()),
            bytes_per_second=bytes_per_second,
        )
        self._said = had.copy()
        self._sequence += 1
        return record
