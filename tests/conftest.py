"""What every test may ask for: one running stack for the whole session, and names that are its own on it.

Which stack: the servers that ``HEADWATER_KAFKA``, ``HEADWATER_POSTGRES``, ``HEADWATER_S3`` and ``HEADWATER_LAKEFS``
name; for the rest the stack that runs at ``HEADWATER_TEST_STACK``, if that is set; else one that this session starts
on free ports and stops when it ends: containers, where none is named and a Docker engine answers, else local processes
(which tests that kill a server of their own start anywhere). Names are unique, and the home goes as a whole. Topics
alone go earlier, with their module: a broker keeps the files of every partition open, and some ten thousand kill it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from hypothesis import settings

from headwater.rules.errors import HeadwaterError
from headwater.stack.addresses import Addresses, from_environment
from headwater.stack.description import Ports
from headwater.stack.local import Stack
from headwater.stack.postgres import create_database, database_address
from headwater.stack.progress import Step
from headwater.stack.s3 import create_bucket

sys.path.insert(0, str(Path(__file__).parent / "containers"))
import stack_containers  # beside the tests, where no package is

T = TypeVar("T")

# Ordinary runs draw the same examples each time; a deep one draws new ones, and many more where a test says so. Both
# print what reproduces a failure.
settings.register_profile("ordinary", derandomize=True, print_blob=True)
settings.register_profile("deep", print_blob=True)
settings.load_profile(os.environ.get("HEADWATER_HYPOTHESIS", "ordinary"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "stack" in getattr(item, "fixturenames", ()):
            item.add_marker("stack")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetches and builds the stack's programs before the first test, so that no test's timeout counts it."""
    needed = any(item.get_closest_marker("stack") for item in session.items)
    if needed and not session.config.option.collectonly and not _is_named() and not _in_containers():
        try:
            Stack(Path()).prepare(_print_step)
        except HeadwaterError as failure:
            print(f"stack: {failure}", flush=True)  # the fixture meets it again, and skips or fails


_own_broker: str | None = None
"""The broker that this session started, and so may clear."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The last test of a module is over, and its topics go."""
    if _own_broker and (nextitem is None or nextitem.path != item.path):
        admin = AdminClient({"bootstrap.servers": _own_broker})
        topics = [name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")]
        for deleted in admin.delete_topics(topics).values() if topics else ():
            deleted.result(30)


def _is_named() -> bool:
    return "HEADWATER_TEST_STACK" in os.environ


@cache
def _in_containers() -> bool:
    """Where no server is named, and an engine answers."""
    return not from_environment() and stack_containers.engine_answers()


def _print_step(step: Step) -> None:
    if step.seconds is None:
        print(f"stack: {step.program}: {step.action} (about {step.estimate_seconds:.0f} s)", flush=True)


@pytest.fixture(scope="session")
def stack() -> Iterator[Addresses]:
    """The addresses of a running, warmed stack. Without one a test skips at home and fails in CI."""
    global _own_broker
    shared = os.environ.get("HEADWATER_TEST_STACK")
    if shared:
        yield Stack(Path(shared)).addresses()
        return
    if _in_containers():
        folder = tempfile.TemporaryDirectory(prefix="headwater-test-", ignore_cleanup_errors=True)
        with folder as kept, stack_containers.running(Path(kept)) as addresses:
            _warm(addresses.kafka)
            _own_broker = addresses.kafka
            yield addresses
            _own_broker = None
        return
    home = Path(tempfile.mkdtemp(prefix="headwater-test-"))
    own = Stack(home, asdict(Ports.free()))
    try:
        addresses = own.up()
        _warm(addresses.kafka)
        _own_broker = addresses.kafka
        yield addresses
        _own_broker = None
    except HeadwaterError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no stack: {missing}")
    finally:
        own.down()
        shutil.rmtree(home)


def _warm(kafka: str) -> None:
    """The first group and the first transaction create the broker's internal topics: no test should wait for that."""
    topic = f"warm-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(60)
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": topic})
    consumer.subscribe([topic])
    try:
        eventually(lambda: consumer.poll(0.1) is not None or consumer.assignment(), within_seconds=60)
    finally:
        consumer.close()


@pytest.fixture
def kafka_prefix() -> str:
    """Starts the name of each topic, group and transactional id of one test."""
    return f"t{uuid.uuid4().hex[:8]}."


@pytest.fixture
def catalog_dsn(stack: Addresses) -> str:
    """An empty database for one test."""
    name = f"t{uuid.uuid4().hex[:12]}"
    create_database(stack.postgres, name)
    return database_address(stack.postgres, name)


@pytest.fixture
def bucket(stack: Addresses) -> str:
    """The address, ``http://access:secret@host:port/bucket?region=…``, of an empty bucket for one test."""
    address = urlunsplit(urlsplit(stack.s3)._replace(path=f"/t{uuid.uuid4().hex[:12]}"))
    create_bucket(address)
    return address


@pytest.fixture
def lakefs_url(stack: Addresses) -> str:
    """The address, ``http://key:secret@host:port``, of lakeFS; it may store repositories below any ``bucket``."""
    return stack.lakefs


def eventually(condition: Callable[[], T], within_seconds: float = 10.0) -> T:
    """What ``condition`` returns once that is true; fails the test if it stays false for ``within_seconds``."""
    deadline = time.monotonic() + within_seconds
    while not (outcome := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"still {outcome!r} after {within_seconds} s", pytrace=True)
        time.sleep(0.02)
    return outcome


@pytest.fixture(name="eventually", scope="session")
def eventually_fixture() -> Callable[..., object]:
    """``eventually`` as a fixture: test modules cannot import conftest in importlib mode."""
    return eventually
