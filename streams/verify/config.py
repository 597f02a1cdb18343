"""Settings of the verifiers."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.rules.errors import BadSettings
from headwater.schemas.records import VerifyMode

MiB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class VerifyConfig:
    sample_percent: float = 100.0
    """Share of objects that is read back, chosen by hash, so that every verifier chooses alike. The rest is only
    looked up (its size). 100: all of them, the only setting under which a version proves its bytes."""
    reads: int = 8
    """Objects, or ranges of one, read at once: enough to hide the answer time of S3, while hashing fills the cores."""
    bytes_in_flight: int = 256 * MiB
    batch_records: int = 200
    large_batch_records: int = 4
    """A large object may take minutes: what was judged should not wait long for its offset."""

    def __post_init__(self) -> None:
        if not 0 <= self.sample_percent <= 100:
            raise BadSettings(
                f"verify.sample_percent is {self.sample_percent}.",
                advice="Give a percentage from 0 to 100; 100 (the default) reads everything back.",
            )

    @property
    def mode(self) -> VerifyMode:
        return VerifyMode.full if self.sample_percent == 100 else VerifyMode.sample
