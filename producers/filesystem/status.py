"""What the agent is doing, for the live view, health checks and logs."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from headwater.observe import metrics


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """A snapshot, about once a second. ``halted``, ``deletes_halted`` and ``trouble`` say why, in a sentence, or are
    None.

    files: paths in the index; dirty: named by events, not looked at yet; settling: waiting until they are quiet;
    reading: being hashed; held: missing, not yet believed to be deleted; outbox: records that Kafka lacks;
    pending: sent, not verified; verified: the rest of files; exceptions: cannot be carried now.
    walked: every directory was listed since the start; listing_age_seconds: all were within this time.
    weak: files that were read where nothing proves that nobody wrote (other owners' files without CAP_LEASE, network
    filesystems, …); watch: where events come from; polled: where they do not, and why, a sentence each.
    """

    source: str
    epoch: int
    seq: int
    files: int
    dirty: int
    settling: int
    reading: int
    held: int
    outbox: int
    pending: int
    exceptions: int
    walked: bool
    directories_due: int
    listing_age_seconds: float | None
    weak: int
    watch: str
    polled: tuple[str, ...]
    overflows: int
    unwatched: int
    halted: str | None
    deletes_halted: str | None
    trouble: str | None

    @property
    def verified(self) -> int:
        return self.files - self.pending

    @property
    def exit_code(self) -> int:
        """What ``--once`` ends with: 0, or 3 where some paths are named instead of verified, or held back."""
        return 3 if self.exceptions or self.pending or self.deletes_halted else 0

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "verified": self.verified}


def export(status: AgentStatus) -> None:
    """Set the agent's gauges."""
    source = status.source
    metrics.AGENT_FILES.labels(source).set(status.files)
    metrics.AGENT_PENDING.labels(source).set(status.pending)
    metrics.AGENT_EXCEPTIONS.labels(source).set(status.exceptions)
    metrics.AGENT_SETTLING.labels(source).set(status.settling)
    metrics.AGENT_OUTBOX.labels(source).set(status.outbox)
    metrics.AGENT_HALTED.labels(source).set(status.halted is not None)
    metrics.AGENT_DELETES_HALTED.labels(source).set(status.deletes_halted is not None)
    metrics.AGENT_LISTING_AGE_SECONDS.labels(source).set(status.listing_age_seconds or 0)
    metrics.AGENT_WEAK.labels(source).set(status.weak)
    metrics.AGENT_UNWATCHED.labels(source).set(status.unwatched)
    metrics.AGENT_OVERFLOWS.labels(source).set(status.overflows)
