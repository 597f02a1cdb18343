"""Words of processes, as a scripted fleet says them, and the views process that reads them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headwater.connectors.kafka import offsets, topics
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig
from headwater.connectors.kafka.newest import newest
from headwater.connectors.kafka.reading import messages
from headwater.schemas.codec import decode, encode
from headwater.schemas.records import GroupView, Record, Stage, StageView, Telemetry
from headwater.schemas.topics import FLEET_TELEMETRY, VIEWS_GROUPS, VIEWS_SAMPLES, VIEWS_STAGES, Topic

PROCESS = Path(__file__).with_name("views_process.py")


@dataclass
class Speaking:
    """One start of a process of the script: it says a word every five seconds. Times are seconds since 1970."""

    group: str
    stage: Stage
    started: int
    host: str = "a"
    incarnation: str = ""

    def word(self, at: int, records: int, **more: Any) -> tuple[float, Telemetry]:
        """What it says at a time, and that time: it had done ``records`` since its start, each of 1,000 bytes."""
        said = Telemetry(
            group=self.group,
            stage=self.stage,
            host=self.host,
            incarnation=self.incarnation or f"{self.group}@{self.host}#{self.started}",
            number=at - self.started,
            started_us=self.started * 1_000_000,
            sent_us=at * 1_000_000,
            state="running",
            reason="",
            records=records,
            content_bytes=records * 1_000,
            retries=0,
            dead_letters=0,
            waiting=0,
        )
        return float(at), replace(said, **more)

    def words(self, first: int, end: int, records: Callable[[int], int]) -> list[tuple[float, Telemetry]]:
        """A word every five seconds; ``records``: done in total at a time."""
        return [self.word(at, records(at)) for at in range(first, end, 5)]


@dataclass
class FleetLog:
    """The views' topics under a prefix of their own, where a test says at what time the log took a word."""

    kafka: Kafka
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def write(self, words: Iterable[tuple[float, Telemetry | bytes]]) -> None:
        producer = self.kafka.producer()
        for at, said in words:
            value = encode(said) if isinstance(said, Telemetry) else said
            producer.produce(self.kafka.physical(FLEET_TELEMETRY), value, b"group", timestamp=int(at * 1_000))
        assert producer.flush(30) == 0
        producer.close()

    def put_row(self, at: float, said: Telemetry) -> None:
        """A row of the views' table that no word on the log accounts for."""
        producer = self.kafka.producer()
        key = f"{said.incarnation}/{int(at) // 10}".encode()
        producer.produce(self.kafka.physical(VIEWS_SAMPLES), encode(said), key, 0)
        assert producer.flush(30) == 0
        producer.close()

    def read(self, topic: Topic) -> list[Record]:
        places = offsets.partitions(self.kafka, topic.name)
        return [
            decode(message.value())
            for message in messages(self.kafka, offsets.beginnings(self.kafka, places))
            if message.value()
        ]

    def stages(self) -> dict[tuple[str, int], StageView]:
        """By stage and time. Fails where the same time was said differently."""
        return self._said(VIEWS_STAGES, lambda view: view.stage)

    def groups(self) -> dict[tuple[str, int], GroupView]:
        return self._said(VIEWS_GROUPS, lambda view: view.group)

    def _said(self, topic: Topic, name: Callable[[Any], str]) -> dict[tuple[str, int], Any]:
        found: dict[tuple[str, int], Any] = {}
        for view in self.read(topic):
            at = int(getattr(view, "at_us") / 1_000_000)  # noqa: B009  # both records have it
            assert found.setdefault((str(name(view)), at), view) == view, "the same moment was told differently"
        return found

    def start(self, die_in: int = 0) -> subprocess.Popen[bytes]:
        """The views in a process of their own, which kills itself in its so-manieth publication if told to."""
        config = self.kafka.config
        child = subprocess.Popen(
            [sys.executable, str(PROCESS), config.bootstrap_servers, config.prefix, str(die_in)],
            stderr=subprocess.PIPE,
        )
        self.children.append(child)
        return child

    def stop(self, child: subprocess.Popen[bytes]) -> str:
        """SIGTERM; what it said on stderr."""
        child.terminate()
        _, said = child.communicate(timeout=30)
        assert child.returncode == 0, said.decode()
        return said.decode()

    def run_until(self, at: int, eventually: Callable[..., Any]) -> None:
        """The views, until they tell of a time. Faust may stand still once: its watchdog begins a new one in time."""
        child = self.start()
        eventually(lambda: self.tells_of(at), within_seconds=180)
        assert "Traceback" not in self.stop(child)

    def tells_of(self, at: int) -> bool:
        views = [view for view in newest(self.kafka, VIEWS_GROUPS).values() if isinstance(view, GroupView)]
        return any(view.at_us >= at * 1_000_000 for view in views)

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
            if child.stderr:
                child.stderr.close()


@pytest.fixture(scope="module")
def make_fleet_log(stack: Any) -> Iterator[Callable[[], FleetLog]]:
    """Makes the topics, under a prefix of their own; ends what a test started on them."""
    made: list[FleetLog] = []

    def make() -> FleetLog:
        log = FleetLog(Kafka(KafkaConfig(stack.kafka, prefix=f"t{uuid.uuid4().hex[:8]}.")))
        told = replace(FLEET_TELEMETRY, log_time=False)  # the script says when the log took a word
        topics.apply(log.kafka, (told, VIEWS_SAMPLES, VIEWS_STAGES, VIEWS_GROUPS))
        made.append(log)
        return log

    yield make
    for log in made:
        log.close()


@pytest.fixture(name="Speaking", scope="session")
def speaking_fixture() -> type[Speaking]:
    """As a fixture: test modules cannot import conftest in importlib mode."""
    return Speaking
