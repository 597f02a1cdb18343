"""The batch protocol under fire: a member is killed after each numbered step, frozen, replaced, and told to stop.

The member runs in a child process (this file, as a script), which wraps one step's method and dies in it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from headwater.cli.service import run_until_signalled
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.rules.errors import HeadwaterError
from headwater.schemas.records import ObjectStored
from headwater.schemas.topics import Topic
from headwater.streams.runtime.batch import BatchReader
from headwater.streams.runtime.config import MemberConfig
from headwater.streams.runtime.member import Member
from headwater.streams.runtime.processor import Batch, BatchLimits, Input, Output
from headwater.streams.runtime.step import Step
from headwater.streams.runtime.transaction import BatchTransaction

ORDERS = Topic("orders", ObjectStored, "hash", 4)
RECEIPTS = Topic("receipts", ObjectStored, "hash", 4)
STEPS: dict[int, tuple[type, str]] = {
    1: (BatchReader, "read"),
    2: (Step, "run"),
    3: (BatchTransaction, "_begin"),
    4: (BatchTransaction, "_produce"),
    5: (BatchTransaction, "_flush"),
    6: (BatchTransaction, "_send_offsets"),
    7: (BatchTransaction, "_commit"),
}
COUNT = 60


class Till:
    """Reads orders, writes a receipt for each; notes in a file which orders a step began and ended with."""

    name = "till"
    reads = (ORDERS,)
    writes = (RECEIPTS,)

    def __init__(self, notes: Path, records: int, seconds: float) -> None:
        self.limits = BatchLimits(records=records, wait_seconds=0.05)
        self._notes = notes
        self._seconds = seconds

    def process(self, batch: Batch) -> Sequence[Output]:
        self._note("began", batch)
        time.sleep(self._seconds)
        self._note("ended", batch)
        return [Output(RECEIPTS, one.record, cause=one) for one in batch.inputs]

    def bury(self, dead: Input, error: HeadwaterError) -> Sequence[Output]:
        raise AssertionError(f"nothing is to be buried: {dead} {error}")

    def _note(self, what: str, batch: Batch) -> None:
        with self._notes.open("a") as notes:
            notes.write(f"{what} {len(batch.inputs)} {batch.is_current()}\n")


def strike_after(step: int, number: signal.Signals, occurrence: int) -> None:
    """Send this process a signal right after the step's method returned for the ``occurrence``-th time."""
    owner, name = STEPS[step]
    inner = getattr(owner, name)
    seen = 0

    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        nonlocal seen
        result = inner(*arguments, **keywords)
        if step != 1 or result is not None:  # a read that found nothing is no step
            seen += 1
        if seen == occurrence:
            os.kill(os.getpid(), number)
        return result

    setattr(owner, name, wrapped)


def main() -> None:
    settings = json.loads(sys.argv[1])
    if settings["step"]:
        strike_after(settings["step"], signal.Signals(settings["signal"]), occurrence=2)
    kafka = Kafka(KafkaConfig(settings["servers"], settings["prefix"], client=settings["client"]))
    till = Till(Path(settings["notes"]), settings["records"], settings["seconds"])
    run_until_signalled(Member(kafka, till, MemberConfig(slot_folder=Path(settings["slots"]))))


class Children:
    """Starts members as processes, and leaves none behind."""

    def __init__(self, log: Any, folder: Path) -> None:
        self._log = log
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        name: str,
        *,
        strike: tuple[int, signal.Signals] = (0, signal.SIGKILL),
        records: int = 10,
        seconds: float = 0.0,
        **client: Any,
    ) -> subprocess.Popen[bytes]:
        settings = {
            "servers": self._log.kafka.config.bootstrap_servers,
            "prefix": self._log.kafka.config.prefix,
            "client": {key.replace("_", "."): value for key, value in client.items()},
            "notes": str(self.notes(name)),
            "slots": str(self._folder / "slots"),
            "step": strike[0],
            "signal": strike[1],
            "records": records,
            "seconds": seconds,
        }
        with (self._folder / f"{name}.log").open("wb") as output:
            child = subprocess.Popen([sys.executable, __file__, json.dumps(settings)], stdout=output, stderr=output)
        self._started.append(child)
        return child

    def notes(self, name: str) -> Path:
        return self._folder / f"{name}.notes"

    def has_noted(self, name: str, what: str) -> bool:
        return self.notes(name).exists() and what in self.notes(name).read_text()

    def has_logged(self, name: str, *events: str) -> bool:
        """One of these events."""
        written = (self._folder / f"{name}.log").read_text()
        return any(event in written for event in events)

    def end(self) -> None:
        for child in self._started:
            if child.poll() is None:
                child.kill()
            child.wait()


@pytest.fixture
def children(log: Any, tmp_path: Path) -> Iterator[Children]:
    members = Children(log, tmp_path)
    yield members
    members.end()


Run = tuple[Any, Children, "subprocess.Popen[bytes]"]


def struck_members(
    make_log: Callable[[], Any], folder: pytest.TempPathFactory, steps: Sequence[int], number: signal.Signals
) -> dict[int, Run]:
    """For each step a log of its own, with a member that gets the signal after that step of its second batch."""
    runs = {}
    for step in steps:
        log = make_log()
        log.place_orders(range(COUNT))
        team = Children(log, folder.mktemp(f"step{step}"))
        runs[step] = (log, team, team.start("struck", strike=(step, number)))
    return runs


@pytest.fixture(scope="module")
def after_kills(
    make_log: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory, eventually: Callable[..., Any]
) -> Iterator[dict[int, list[int]]]:
    """For each step: the receipts after a member was killed behind it and another one took over. All runs at once,
    because each waits for its group to miss the dead member."""
    runs = struck_members(make_log, tmp_path_factory, list(STEPS), signal.SIGKILL)
    try:
        for _, team, killed in runs.values():
            assert killed.wait(60) == -signal.SIGKILL
            team.start("next")
        for log, _, _ in runs.values():
            eventually(lambda log=log: len(log.receipt_numbers()) >= COUNT, within_seconds=60)
        yield {step: log.receipt_numbers() for step, (log, _, _) in runs.items()}
    finally:
        for _, team, _ in runs.values():
            team.end()


@pytest.mark.fault
@pytest.mark.parametrize("step", STEPS)
def test_a_member_killed_after_any_step_leaves_each_output_once(after_kills: dict[int, list[int]], step: int) -> None:
    assert after_kills[step] == list(range(COUNT))


FROZEN_AT = (2, 5, 6)
"""In a step; with outputs on the brokers; with the offsets joined in. Never seen to end by itself."""


@pytest.fixture(scope="module")
def after_thaws(
    make_log: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory, eventually: Callable[..., Any]
) -> Iterator[dict[int, tuple[list[int], int | None]]]:
    """For each step: the receipts, and the exit code if it has one, of a member that was frozen until another one had
    done its work (so beyond the session's and the transaction's time-outs), and then thawed, with more to do."""
    runs = struck_members(make_log, tmp_path_factory, FROZEN_AT, signal.SIGSTOP)
    try:
        for _, team, frozen in runs.values():
            process = psutil.Process(frozen.pid)
            eventually(lambda process=process: process.status() == psutil.STATUS_STOPPED, within_seconds=60)
            team.start("heir")
        for log, _, frozen in runs.values():
            eventually(lambda log=log: len(log.receipt_numbers()) >= COUNT, within_seconds=60)
            frozen.send_signal(signal.SIGCONT)
            log.place_orders(range(COUNT, 2 * COUNT))
        for log, team, _ in runs.values():
            eventually(lambda log=log: len(log.receipt_numbers()) >= 2 * COUNT, within_seconds=60)
            eventually(
                lambda team=team: team.has_logged("struck", "member.starting_over", "batch.dropped"), within_seconds=60
            )
        yield {step: (log.receipt_numbers(), frozen.poll()) for step, (log, _, frozen) in runs.items()}
    finally:
        for _, team, _ in runs.values():
            team.end()


@pytest.mark.fault
@pytest.mark.parametrize("step", FROZEN_AT)
def test_a_member_that_wakes_after_its_timeouts_repeats_nothing_and_goes_on(
    after_thaws: dict[int, tuple[list[int], int | None]], step: int
) -> None:
    receipts, exit_code = after_thaws[step]
    assert receipts == list(range(2 * COUNT))
    assert exit_code is None, "it joins the group anew"


@pytest.mark.fault
def test_a_slow_step_whose_partitions_are_taken_is_repeated_by_the_new_owner_alone(
    log: Any, children: Children, eventually: Callable[..., Any]
) -> None:
    log.place_orders(range(COUNT))
    children.start("slow", records=COUNT, seconds=6.0)  # longer than a process needs to start and join
    eventually(lambda: children.has_noted("slow", "began"), within_seconds=40)

    children.start("joining")

    eventually(lambda: len(log.receipt_numbers()) >= COUNT, within_seconds=60)
    eventually(lambda: children.has_noted("slow", "ended"), within_seconds=20)
    first = children.notes("slow").read_text().splitlines()[:2]
    assert [line.split()[::2] for line in first] == [["began", "True"], ["ended", "False"]], (
        "a step sees that it is in vain"
    )
    assert log.receipt_numbers() == list(range(COUNT))


@pytest.mark.fault
def test_sigterm_finishes_and_commits_the_step_in_hand(
    log: Any, children: Children, eventually: Callable[..., Any]
) -> None:
    log.place_orders(range(COUNT))
    stopped = children.start("stopped", records=COUNT, seconds=2.0)
    eventually(lambda: children.has_noted("stopped", "began"), within_seconds=40)

    stopped.terminate()

    assert stopped.wait(20) == 0
    done = children.notes("stopped").read_text().count("ended")
    assert done == 1, "no new batch is begun"
    handled = int(children.notes("stopped").read_text().split()[1])
    assert len(log.receipt_numbers()) == handled
    assert sum(log.committed("till").values()) >= handled


if __name__ == "__main__":
    main()
