"""A server of jobs that is killed under everybody, and comes back: nothing accepted is lost, and no lease."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from threading import Thread

import pytest

from headwater.connectors.jobs import expiry
from headwater.connectors.s3.config import S3Config
from headwater.connectors.s3.store import ObjectStore
from headwater.rules.errors import Unavailable
from headwater.stack.addresses import Addresses
from headwater.stack.description import Ports
from headwater.stack.local import Stack
from headwater.stack.processes import alive
from headwater.streams.runtime.state import Phase
from headwater.streams.sweep.sweep import Sweep
from tests.any_job import POLICY, Place, any_place

Eventually = Callable[..., object]


@pytest.fixture
def server(stack: Addresses, tmp_path: Path) -> Iterator[Stack]:
    """A PostgreSQL of this test's own; the other servers are the shared ones."""
    shared = {name: value for name, value in stack.environment().items() if name != "HEADWATER_POSTGRES"}
    own = Stack(tmp_path / "postgres", asdict(Ports.free()), environment=shared)
    own.up()
    yield own
    own.down()


def kill(server: Stack) -> None:
    running = alive("postgres", server.home)
    assert running is not None
    os.kill(running.pid, signal.SIGQUIT)  # "immediate": as a crash, and it takes its own children along


@pytest.mark.fault
def test_a_server_that_crashes_and_comes_back_costs_nobody_a_lease(
    server: Stack, bucket: str, eventually: Eventually
) -> None:
    with any_place(server.addresses().postgres) as place:
        running, queued = place.submit(), place.submit()
        (attempt,) = place.run(running)
        sweep = Sweep(place.jobs, ObjectStore(S3Config.from_url(bucket)), POLICY)
        thread = Thread(target=sweep.run)
        thread.start()
        try:
            eventually(lambda: sweep.state().phase is Phase.running)
            place.query("UPDATE leases SET expires_at = now() + interval '1 hour'")
            kill(server)
            eventually(lambda: sweep.state().phase is Phase.degraded, within_seconds=60)
            with pytest.raises(Unavailable, match="database of jobs"):
                place.state(queued)

            server.up()
            eventually(lambda: sweep.state().phase is Phase.running, within_seconds=60)
            place.query("UPDATE leases SET expires_at = now() - interval '1 second'")  # it ran out in the outage
            eventually(lambda: expires_in(place) > 5.0, within_seconds=60)
            assert place.state(queued) == "queued"
            assert place.state(running) == "running"
            assert not place.beat(worker=place.worker).unknown_worker
            end_while_watched(place, eventually, running)
        finally:
            sweep.stop()
            thread.join(60)
        assert place.complete(attempt) == ["lost"]
        assert place.grant(running)[0].epoch == 2


def expires_in(place: Place) -> float:
    ((seconds,),) = place.query("SELECT extract(epoch FROM expires_at - now())::float8 FROM leases")
    return float(seconds)


def end_while_watched(place: Place, eventually: Eventually, job: str) -> None:
    """With an endpoint there again, a lease that is over ends."""

    def ended() -> bool:
        with place.jobs.quiet() as transaction:
            expiry.tick(transaction, expiry.ENDPOINT)
        place.query("UPDATE leases SET expires_at = now() - interval '1 second'")
        return place.state(job) == "queued"

    eventually(ended, within_seconds=60)
