"""Tenants and pools as an operator keeps them, by the command line on a real database."""

import pytest

from headwater.connectors.jobs import tenants
from headwater.connectors.jobs.config import JobsConfig
from headwater.connectors.jobs.database import JobsDatabase
from headwater.rules.jobs.keys import key_hash

pytestmark = pytest.mark.stack


@pytest.fixture
def jobs(on_stack, catalog_dsn):  # noqa: ARG001
    with JobsDatabase(JobsConfig(dsn=catalog_dsn)) as database:
        database.migrate()
        yield database


def owner_of(jobs: JobsDatabase, key: str) -> str | None:
    with jobs.quiet() as transaction:
        found = tenants.of_key(transaction, key_hash(key))
    return None if found is None else found.tenant


def test_a_tenant_gets_a_key_that_opens_the_service_until_it_is_revoked(jobs, command):
    added = command("tenants", "add", "shop", "--weight", "2", "--max-running", "8", "--json").json

    assert owner_of(jobs, added["key"]) == "shop"
    another = command("tenants", "key", "shop", "--json").json["key"]
    assert owner_of(jobs, another) == "shop"
    hint = added["key"][:7]
    assert command("tenants", "revoke", "shop", hint).code == 0
    assert owner_of(jobs, added["key"]) is None
    assert owner_of(jobs, another) == "shop"
    assert command("tenants", "revoke", "shop", hint).code == 66, "it is revoked already"
    shown = command("tenants", "show", "shop", "--json").json
    assert [key["revoked_at"] is None for key in shown["keys"]] == [False, True]
    assert added["key"] not in command("tenants", "show", "shop").out


@pytest.mark.usefixtures("jobs")
def test_limits_are_set_one_by_one_and_lifted_by_none(command):
    command("tenants", "add", "shop", "--max-running", "8", "--requests-per-minute", "600", "--retention-days", "7")

    assert command("tenants", "set", "shop", "--max-running", "none", "--gpu-seconds-per-day", "3600.5").code == 0

    [shop] = command("tenants", "--json").json
    assert (shop["max_running"], shop["requests_per_minute"], shop["gpu_seconds_per_day"]) == (None, 600, 3600.5)
    assert (shop["weight"], shop["retention_days"]) == (1, 7)
    assert command("tenants", "set", "shop", "--disable").code == 0
    assert "disabled" in command("tenants").out
    assert command("tenants", "set", "shop", "--enable", "--json").json["disabled_at"] is None


def test_two_secrets_sign_while_they_are_exchanged(jobs, command):
    first = command("tenants", "add", "shop", "--json").json["webhook_secret"]

    second = command("tenants", "secret", "shop", "--json").json["webhook_secret"]

    assert secrets_of(jobs) == [second, first]
    third = command("tenants", "secret", "shop", "--json").json["webhook_secret"]
    assert secrets_of(jobs) == [third, second], "never more than two"
    assert command("tenants", "secret", "shop", "--drop-old").code == 0
    assert secrets_of(jobs) == [third]


def secrets_of(jobs: JobsDatabase) -> list[str]:
    with jobs.quiet() as transaction:
        found = tenants.get(transaction, "shop")
    assert found is not None
    return found.webhook_secrets


MISTAKES = [
    (["tenants", "add", "shop"], 77, "there is a tenant shop already"),
    (["tenants", "add", "Shop Ltd"], 78, "cannot name a tenant"),
    (["tenants", "key", "nobody"], 66, "headwater tenants add nobody"),
    (["tenants", "set", "nobody", "--weight", "2"], 66, "there is no tenant 'nobody'"),
    (["tenants", "set", "shop"], 78, "nothing is given that could be changed"),
    (["tenants", "set", "shop", "--max-running", "many"], 2, "no number above 0"),
    (["tenants", "set", "shop", "--max-queued", "1.5"], 2, "no whole number"),
    (["tenants", "secret", "nobody"], 66, "there is no tenant"),
    (["pools", "set", "gpu-a", "--fallback", "gpu-z"], 66, "headwater pools set gpu-z"),
    (["pools", "set", "gpu a"], 78, "cannot name a pool"),
    (["pools", "set", "gpu-a", "--max-wait", "soon"], 2, "no length of time"),
]


@pytest.mark.usefixtures("jobs")
def test_a_mistake_is_named_and_changes_nothing(command):
    command("tenants", "add", "shop")
    before = [command(family, "--json").json for family in ("tenants", "pools")]

    for arguments, code, says in MISTAKES:
        ended = command(*arguments)
        assert ended.code == code, ended.err
        assert says in " ".join(ended.err.split()).lower()

    assert [command(family, "--json").json for family in ("tenants", "pools")] == before


@pytest.mark.usefixtures("jobs")
def test_a_pool_is_made_and_changed(command):
    assert "is made" in command("pools", "set", "gpu-b").out
    assert command("pools", "set", "gpu-a", "--price", "0.0006", "--fallback", "gpu-b", "--max-wait", "10min").code == 0

    a, b = command("pools", "--json").json
    assert (a["pool"], a["price"], a["fallback"], a["max_wait_seconds"]) == ("gpu-a", 600, "gpu-b", 600)
    assert (b["pool"], b["fallback"]) == ("gpu-b", None)
    assert "is set" in command("pools", "set", "gpu-a", "--fallback", "none", "--max-wait", "none").out
    assert command("pools", "--json").json[0]["fallback"] is None
    assert "none yet" in command("pools").out
    assert "headwater worker" in command("pools", "workers").out


@pytest.mark.usefixtures("jobs")
def test_without_tenants_and_pools_it_says_how_to_begin(command):
    assert "headwater tenants add" in command("tenants").out
    assert "headwater pools set" in command("pools").out


@pytest.mark.usefixtures("on_stack")
def test_tables_that_are_not_there_yet_are_made_by_up(command):
    ended = command("tenants")

    assert ended.code == 66
    assert "headwater up" in ended.err
