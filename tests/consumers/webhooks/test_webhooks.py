"""The sender of webhooks against PostgreSQL and receivers that behave as receivers do."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from standardwebhooks import Webhook

from headwater.connectors.jobs import deliveries, pools, submit, tenants
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.jobs.submit import Submission
from headwater.connectors.web.client import Web
from headwater.connectors.web.config import WebConfig
from headwater.consumers.webhooks.config import WebhooksConfig
from headwater.consumers.webhooks.webhooks import Webhooks
from headwater.rules.jobs import webhooks as rules
from headwater.rules.jobs.webhooks import webhook_id

NEW, OLD = "whsec_" + "bmV3" * 8, "whsec_" + "b2xk" * 8
PATIENT = WebConfig(allow_http=True, allow_networks=("127.0.0.0/8",), answer_seconds=30)
CONFIG = WebhooksConfig(look_seconds=0.05)

Eventually = Callable[..., Any]


class Place:
    def __init__(self, jobs: JobsDatabase) -> None:
        self.jobs = jobs

    def end(self, url: str, count: int = 1, tenant: str = "acme") -> list[str]:
        """Jobs that ended; the ids of their webhooks."""
        asked = {"prompt": "a red fox", "size": "64x64", "seconds": "2"}
        made = [f"video_{uuid.uuid4().hex}" for _ in range(count)]
        with self.jobs.transaction() as transaction:
            for job in made:
                submit.submit(
                    transaction,
                    Submission(
                        job=job, tenant=tenant, pool="gpu", model="testcard", request=asked, cost_seconds=1.0,
                        webhook_url=url,
                    ),
                )  # fmt: skip
            transaction.execute("UPDATE jobs SET state = 'cancelled', completed_at = now() WHERE job = ANY(%s)", [made])
        return [webhook_id(job, "video.cancelled") for job in made]

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self.jobs.quiet() as transaction:
            cursor = transaction.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def states(self) -> Counter[str]:
        return Counter(dict(self.query("SELECT state, count(*) FROM deliveries GROUP BY state")))

    def row(self, delivery: str) -> dict[str, Any]:
        names = ("state", "attempts", "last_status", "last_error", "wait")
        [found] = self.query(
            "SELECT state, attempts, last_status, last_error, extract(epoch FROM due_at - now()) "
            "FROM deliveries WHERE delivery = %s",
            delivery,
        )
        return dict(zip(names, found, strict=True))

    def time_passes(self) -> None:
        """What waits for its moment is due now."""
        self.query("UPDATE deliveries SET due_at = now() WHERE state = 'pending'")


@pytest.fixture
def place(catalog_dsn: str) -> Iterator[Place]:
    with JobsDatabase(JobsConfig(dsn=catalog_dsn)) as database:
        database.migrate()
        with database.transaction() as transaction:
            pools.ensure(transaction, "gpu")
            for tenant in ("acme", "other"):
                tenants.ensure(transaction, tenant)
            transaction.execute("UPDATE tenants SET webhook_secrets = %s", [[NEW, OLD]])
        yield Place(database)


@contextmanager
def sending(place: Place, web: WebConfig = PATIENT, config: WebhooksConfig = CONFIG) -> Iterator[Webhooks]:
    webhooks = Webhooks(place.jobs, Web(web), config)
    thread = threading.Thread(target=webhooks.run)
    thread.start()
    try:
        yield webhooks
    finally:
        webhooks.stop()
        thread.join()


def test_a_job_that_ends_is_told_once_and_signed(place: Place, receiver: Any, eventually: Eventually) -> None:
    with sending(place):
        [delivery] = place.end(f"{receiver.url}/hook")
        eventually(lambda: place.row(delivery)["state"] == "delivered")
    [hook] = receiver.got
    said = Webhook(OLD).verify(hook.body, hook.headers)
    assert hook.headers["webhook-id"] == delivery
    assert said["type"] == "video.cancelled"
    assert (said["data"]["status"], said["data"]["prompt"]) == ("cancelled", "a red fox")
    assert webhook_id(said["data"]["id"], said["type"]) == delivery
    assert place.row(delivery)["attempts"] == 1


def test_500_twice_then_a_hang_then_200_is_delivered_on_schedule_and_delays_nobody(
    place: Place, receiver: Any, receiving: Any, eventually: Eventually
) -> None:
    """Case 17. The id stays the same; each attempt is signed at its own time."""
    receiver.answers["/hook"] = [500, 500, 0, 200]
    with receiving() as other, sending(place, WebConfig(**{**_fields(PATIENT), "answer_seconds": 1.0})):
        [delivery] = place.end(f"{receiver.url}/hook")
        for attempts, (least, most) in enumerate([(5, 6), (300, 360), (1_800, 2_160)], start=1):
            eventually(lambda made=attempts: place.row(delivery)["attempts"] == made)
            assert least - 5 < place.row(delivery)["wait"] <= most
            [quick] = place.end(f"{other.url}/hook", tenant="other")
            eventually(lambda one=quick: place.row(one)["state"] == "delivered")
            place.time_passes()
        eventually(lambda: place.row(delivery)["state"] == "delivered")
    assert place.row(delivery)["attempts"] == 4
    assert {hook.headers["webhook-id"] for hook in receiver.got} == {delivery}
    assert len(receiver.got) == 4
    for hook in receiver.got:
        Webhook(NEW).verify(hook.body, hook.headers)


def test_one_event_that_hangs_delays_none_of_a_hundred_others(
    place: Place, receiver: Any, eventually: Eventually
) -> None:
    """Case 18: not even at the same endpoint."""
    receiver.answers["/slow"] = [0]
    with sending(place):
        [slow] = place.end(f"{receiver.url}/slow")
        eventually(lambda: receiver.at("/slow"))
        others = place.end(f"{receiver.url}/hook", 100)
        eventually(lambda: place.states()["delivered"] == len(others), within_seconds=30)
        assert place.row(slow)["state"] == "pending"
        receiver.closing.set()


def test_a_dead_endpoint_rests_delays_nobody_and_gets_all_when_it_is_back(
    place: Place, receiver: Any, receiving: Any, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "REST_SECONDS", 0.5)
    monkeypatch.setattr(rules, "LONGEST_REST_SECONDS", 0.5)
    receiver.answers["/dead"] = [503] * 8
    with receiving() as other, sending(place):
        dead = place.end(f"{receiver.url}/dead", 200)
        eventually(lambda: len(receiver.at("/dead")) >= 5)
        alive = place.end(f"{other.url}/hook", 50)
        eventually(lambda: all(place.row(one)["state"] == "delivered" for one in alive), within_seconds=30)
        eventually(lambda: place.states()["delivered"] >= 242, within_seconds=30)
        place.time_passes()  # of those that failed before
        eventually(lambda: place.states()["delivered"] == 250, within_seconds=30)
    assert len(receiver.at("/dead")) == 208, "eight failures, and each of the rest once"
    assert {hook.headers["webhook-id"] for hook in receiver.at("/dead")} == set(dead)


def test_two_senders_share_the_work_and_send_each_once(place: Place, receiver: Any, eventually: Eventually) -> None:
    made = place.end(f"{receiver.url}/hook", 200)
    with sending(place), sending(place):
        eventually(lambda: place.states()["delivered"] == 200, within_seconds=30)
    assert Counter(hook.headers["webhook-id"] for hook in receiver.got) == Counter(made)


def test_410_disables_a_url_until_a_replay(place: Place, receiver: Any, eventually: Eventually) -> None:
    receiver.answers["/gone"] = [410]
    with sending(place):
        [first] = place.end(f"{receiver.url}/gone")
        eventually(lambda: place.row(first)["state"] == "failed")
        [second] = place.end(f"{receiver.url}/gone")
        [beside] = place.end(f"{receiver.url}/hook")
        eventually(lambda: place.row(second)["state"] == "failed")
        eventually(lambda: place.row(beside)["state"] == "delivered")
        assert len(receiver.at("/gone")) == 1
        [(job,)] = place.query("SELECT job FROM deliveries WHERE delivery = %s", first)
        with place.jobs.quiet() as transaction:
            assert deliveries.replay(transaction, "acme", job, first)
        eventually(lambda: place.row(first)["state"] == "delivered")
    assert [hook.headers["webhook-id"] for hook in receiver.at("/gone")] == [first, first]


_DIES_AFTER_ITS_POST = """
import os, signal, sys
from headwater.connectors.jobs import deliveries
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.connectors.web.client import Web
from headwater.connectors.web.config import WebConfig
from headwater.consumers.webhooks.config import WebhooksConfig
from headwater.consumers.webhooks.webhooks import Webhooks

note = deliveries.note
def die_at_the_first_outcome(transaction, sender, outcomes):
    if outcomes:
        os.kill(os.getpid(), signal.SIGKILL)
    note(transaction, sender, outcomes)
deliveries.note = die_at_the_first_outcome
web = Web(WebConfig(allow_http=True, allow_networks=("127.0.0.0/8",)))
Webhooks(JobsDatabase(JobsConfig(dsn=sys.argv[1])), web, WebhooksConfig()).run()
"""


@pytest.mark.fault
def test_a_sender_killed_between_the_post_and_its_note_is_repeated_under_the_same_id(
    place: Place, catalog_dsn: str, receiver: Any, eventually: Eventually
) -> None:
    [delivery] = place.end(f"{receiver.url}/hook")
    killed = subprocess.run([sys.executable, "-c", _DIES_AFTER_ITS_POST, catalog_dsn], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert len(receiver.got) == 1
    assert place.row(delivery)["attempts"] == 0
    with sending(place):
        assert place.row(delivery)["state"] == "pending", "the dead sender has it, until its hold ends"
        place.query("UPDATE deliveries SET taken_until = now() - interval '1 s'")
        eventually(lambda: place.row(delivery)["state"] == "delivered")
    first, second = receiver.got
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == delivery
    assert first.body == second.body


def test_a_sender_that_is_stopped_waits_for_the_answers_under_way(
    place: Place, receiver: Any, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    draining, drain = threading.Event(), Webhooks._drain

    def noticed(webhooks: Webhooks) -> None:
        draining.set()
        drain(webhooks)

    monkeypatch.setattr(Webhooks, "_drain", noticed)
    receiver.answers["/slow"] = [0]
    with sending(place) as webhooks:
        [delivery] = place.end(f"{receiver.url}/slow")
        eventually(lambda: receiver.got)
        webhooks.stop()
        assert draining.wait(30)
        receiver.closing.set()  # it hangs up without an answer
    assert place.row(delivery)["attempts"] == 1
    assert "gave no answer" in place.row(delivery)["last_error"]


def test_an_endpoint_that_rests_is_left_alone_with_all_that_waits_for_it(
    place: Place, receiver: Any, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "REST_SECONDS", 1_000.0)
    monkeypatch.setattr(rules, "LONGEST_REST_SECONDS", 1_000.0)
    receiver.answers["/dead"] = [503] * 100
    due = "SELECT count(*) FROM deliveries WHERE state = 'pending' AND due_at <= now() AND taken_until IS NULL"
    with sending(place):
        place.end(f"{receiver.url}/dead", 60)
        eventually(lambda: len(receiver.got) >= 5)
        eventually(lambda: place.query(due) == [(0,)])
        place.end(f"{receiver.url}/dead", 5)
    assert 5 <= len(receiver.got) <= 8, "five failures, and what was under way with the last of them"
    assert place.states() == {"pending": 65}


def test_connections_to_the_catalog_that_break_cost_time_only(
    place: Place, catalog_dsn: str, receiver: Any, eventually: Eventually
) -> None:
    made = place.end(f"{receiver.url}/hook", 100)
    doomed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    name = f"sender-{uuid.uuid4().hex[:8]}"
    with (
        JobsDatabase(JobsConfig(dsn=catalog_dsn), application=name) as database,
        sending(Place(database)),
    ):
        for sent in (1, 10, 30):
            eventually(lambda least=sent: len(receiver.got) >= least)
            eventually(lambda: place.query(doomed, name))
        place.query("UPDATE deliveries SET taken_until = now() WHERE taken_until IS NOT NULL")  # time passes
        eventually(lambda: place.states()["delivered"] == 100, within_seconds=60)
    assert {hook.headers["webhook-id"] for hook in receiver.got} == set(made)


def test_a_catalog_that_is_away_is_waited_for_and_said(eventually: Eventually) -> None:
    with JobsDatabase(JobsConfig(dsn="postgresql://127.0.0.1:9/none", connect_seconds=0.2)) as nowhere:
        webhooks = Webhooks(nowhere, Web(PATIENT), CONFIG)
        assert webhooks.health().healthy
        thread = threading.Thread(target=webhooks.run)
        thread.start()
        try:
            eventually(lambda: not webhooks.health().healthy, within_seconds=30)
            assert "does not answer" in webhooks.health().reason
        finally:
            webhooks.stop()
            thread.join()


def test_a_hundred_endpoints_get_a_thousand_webhooks(place: Place, receiving: Any, eventually: Eventually) -> None:
    """Each host is an endpoint of its own: loopback has many."""
    with receiving("0.0.0.0") as everywhere, sending(place):
        port = everywhere.url.rpartition(":")[2]
        for host in range(1, 101):
            place.end(f"http://127.0.0.{host}:{port}/hook", 10)
        eventually(lambda: place.states()["delivered"] == 1_000, within_seconds=120)
    assert len({hook.headers["webhook-id"] for hook in everywhere.got}) == len(everywhere.got) == 1_000


def _fields(config: WebConfig) -> dict[str, Any]:
    return {"allow_http": config.allow_http, "allow_networks": config.allow_networks}
