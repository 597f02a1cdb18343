"""What may be deleted without asking, and the way to an operator's consent for the rest."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from headwater.connectors.catalog import halts
from headwater.connectors.catalog.client import Catalog
from headwater.connectors.catalog.halts import Halt
from headwater.observe import logs
from headwater.producers.filesystem.config import AgentConfig
from headwater.producers.filesystem.index import Index
from headwater.producers.filesystem.owner import Owner
from headwater.producers.filesystem.root import Root
from headwater.rules.errors import Unavailable

log = logs.logger()

_EXAMPLES = 5
_ROUND_SECONDS = 1.0
"""A source that halted is judged anew this often: 500,000 waiting paths take 15 ms to count."""


def shared_directory(first: bytes, last: bytes) -> bytes:
    """The directory that all of some directories lie in or are, from the first and the last of them in byte order."""
    common = []
    for one, other in zip(first.split(b"/"), last.split(b"/"), strict=False):
        if one != other:
            break
        common.append(one)
    return b"/".join(common)


class Consent:
    """Called from the agent's thread. ``halt`` is what is held back now, if anything.

    Deletes halt as a whole: where those of the last 24 hours and those that are due exceed what a day may have, none
    is sent, not the first tenth. All else goes on. A consent is a number; deletes beyond it halt again. It ends when
    nothing is missing any more, so that none is left over for the next accident.
    """

    def __init__(
        self,
        config: AgentConfig,
        catalog: Catalog,
        index: Index,
        owner: Owner,
        root: Root,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._catalog = catalog
        self._index = index
        self._owner = owner
        self._root = root
        self._clock = clock
        self._judge_at = 0.0
        self._ask_at = 0.0
        self._said = True
        self.halt: Halt | None = None

    def allows(self, due_before: float) -> bool:
        """May the paths go that are missing since before that time? Inside a transaction of the index."""
        if self.halt is not None and monotonic() < self._judge_at:
            return False
        self._judge_at = monotonic() + _ROUND_SECONDS
        files, tally = self._index.files, self._index.deletes
        due = files.missing_count(due_before)
        deleted = tally.within_a_day(self._clock())
        known = files.count + deleted
        usual = max(self._config.deletes_unasked, int(known * self._config.deletes_share))
        if deleted + due <= usual + tally.consented:
            self._note(None)
            return True
        first, last = files.missing_span(due_before)
        self._note(
            Halt(
                f"{due:,} paths are gone, and {deleted:,} of {known:,} were deleted within a day, of which "
                f"{usual:,} may be: nothing is deleted until `headwater consent {self._config.source}`",
                due,
                shared_directory(first, last),
                tuple(known.path for known in files.missing(due_before, _EXAMPLES)),
            )
        )
        return False

    def emptied(self, reason: str) -> None:
        """The root is empty although files are known."""
        examples = tuple(known.path for known in self._index.files.first(_EXAMPLES))
        self._note(Halt(reason, self._index.files.count, b"", examples))

    def nothing_is_due(self) -> None:
        """While the root is sound, inside a transaction of the index. What is left of a consent becomes void once
        nothing is missing; the root that was emptied, and will be found so, still needs it."""
        self._note(None)
        if self._index.deletes.consented and not self._index.files.missing_count() and not self._root.is_emptied():
            self._index.deletes.consent(0)

    def _note(self, halt: Halt | None) -> None:
        if halt is not None and self.halt is None:
            log.error("deletes.halted", source=self._config.source, why=halt.reason, below=halt.subtree)
        if halt is None and self.halt is not None:
            log.info("deletes.resumed", source=self._config.source)
        self._said = self._said or halt is not None
        self.halt = halt

    def ask(self) -> None:
        """Every few seconds: say what is held back, and take the consent (halts.py says what a crash leaves)."""
        owner = self._owner.ownership
        if owner is None or not self._said or monotonic() < self._ask_at:
            return
        self._ask_at = monotonic() + self._config.verified_poll_seconds
        try:
            with self._catalog.transaction() as transaction:
                if self.halt is not None:
                    halts.say(transaction, owner, self.halt)
                said = halts.waiting(transaction, owner.source)
            if said is not None and said.consented is not None:
                self._take(said.consented)
            elif self.halt is not None:
                return
            with self._catalog.transaction() as transaction:
                halts.lift(transaction, owner)
            self._said = False
        except Unavailable:
            return  # the heartbeat says so

    def _take(self, paths: int) -> None:
        log.warning("deletes.consented", source=self._config.source, paths=paths)
        with self._index.transaction():
            self._index.deletes.consent(paths)
        self._judge_at = 0.0
