"""Runs the real command in a process of its own, against names that belong to one test."""

import json
import multiprocessing
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from headwater.cli import main
from headwater.connectors.kafka.client import Kafka
from headwater.connectors.kafka.config import KafkaConfig

_QUIET = {"HEADWATER_CONFIG", "COLUMNS", "FORCE_COLOR"}


# Each command runs in a process of its own, forked from one that has the slow imports behind it.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["headwater.cli.members", "headwater.stack.local", "headwater.consumers.dataset"])


def run(arguments: Sequence[str], environment: dict[str, str], folder: str, out: str, err: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["headwater", *arguments]
    main()


@dataclass(frozen=True)
class Ended:
    """How one run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def environment() -> dict[str, str]:
    """Without any setting of the machine that runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return {name: value for name, value in kept.items() if name not in _QUIET}


@pytest.fixture
def command(tmp_path, environment):
    """``headwater …`` in an empty folder, knowing no server but what ``environment`` names."""

    def command(*arguments: str, **more: str) -> Ended:
        given = {"HEADWATER_STATE_FOLDER": str(tmp_path / "state"), "HEADWATER_SITE": "lab", **environment, **more}
        out, err = tmp_path / ".stdout", tmp_path / ".stderr"
        process = _FORKS.Process(target=run, args=(arguments, given, str(tmp_path), str(out), str(err)))
        process.start()
        process.join(120)
        assert process.exitcode is not None, f"headwater {' '.join(arguments)} does not end"
        return Ended(process.exitcode, out.read_text(), err.read_text())

    return command


@pytest.fixture
def on_stack(environment, stack, kafka_prefix, catalog_dsn, bucket):
    """Gives ``command`` the real servers, with topics, tables and bucket of this test's own."""
    environment |= {
        "HEADWATER_KAFKA": stack.kafka,
        "HEADWATER_KAFKA__PREFIX": kafka_prefix,
        "HEADWATER_POSTGRES": catalog_dsn,
        "HEADWATER_S3": bucket,
        "HEADWATER_LAKEFS": stack.lakefs,
    }
    return Kafka(KafkaConfig(stack.kafka, prefix=kafka_prefix))
