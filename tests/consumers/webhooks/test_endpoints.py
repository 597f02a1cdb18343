from __future__ import annotations

from random import Random

from headwater.connectors.jobs.deliveries import Delivery, Due
from headwater.consumers.webhooks.config import WebhooksConfig
from headwater.consumers.webhooks.endpoints import Endpoints

CONFIG = WebhooksConfig(threads=10, tenant_posts=6, endpoint_posts=4)


def due(number: int, endpoint: str, tenant: str = "a") -> Due:
    return Due(f"wh_{number}", f"{tenant} {endpoint}", tenant)


def started(endpoints: Endpoints, chosen: list[Due]) -> list[Delivery]:
    taken = [Delivery(one.delivery, one.endpoint, one.tenant, "video_a", "t", "u", 0, (), False) for one in chosen]
    for one in taken:
        endpoints.started(one)
    return taken


def test_a_stranger_gets_two_places_and_the_rest_goes_to_others() -> None:
    endpoints = Endpoints(CONFIG, Random(1))
    flood = [due(number, "slow.example") for number in range(8)]
    other = due(9, "other.example", "b")
    assert endpoints.choose([*flood, other], 0.0) == [*flood[:2], other]


def test_each_success_earns_a_place_up_to_the_cap() -> None:
    endpoints = Endpoints(CONFIG, Random(1))
    for _ in range(20):
        endpoints.succeeded("a good.example")
    assert len(endpoints.choose([due(number, "good.example") for number in range(8)], 0.0)) == 4


def test_what_is_under_way_counts_until_it_ends() -> None:
    endpoints = Endpoints(CONFIG, Random(1))
    taken = started(endpoints, endpoints.choose([due(1, "x"), due(2, "x")], 0.0))
    assert endpoints.full(0.0) == ["a x"]
    assert endpoints.choose([due(3, "x")], 0.0) == []
    endpoints.ended(taken[0])
    assert endpoints.full(0.0) == []
    assert endpoints.choose([due(3, "x")], 0.0) == [due(3, "x")]


def test_a_tenant_with_many_hosts_has_a_cap_too() -> None:
    endpoints = Endpoints(CONFIG, Random(1))
    chosen = endpoints.choose([due(number, f"{number}.example") for number in range(9)], 0.0)
    assert len(chosen) == 6
    started(endpoints, chosen)
    assert endpoints.full_tenants() == ["a"]
    assert endpoints.choose([due(20, "x", "a"), due(21, "x", "b")], 0.0) == [due(21, "x", "b")]


def test_no_more_is_chosen_than_threads_are_free() -> None:
    endpoints = Endpoints(CONFIG, Random(1))
    many = [due(number, f"{number}.example", f"t{number}") for number in range(30)]
    started(endpoints, endpoints.choose(many[:7], 0.0))
    assert len(endpoints.choose(many[7:], 0.0)) == 3


def test_an_endpoint_that_fails_again_and_again_rests_then_gets_one_attempt() -> None:
    endpoints = Endpoints(CONFIG, Random(1))
    rests = [endpoints.failed("a x", 100.0) for _ in range(5)]
    assert rests[:4] == [None] * 4
    assert rests[4] is not None
    assert endpoints.full(100.0) == ["a x"]
    assert endpoints.resting(100.0) == {"a x": rests[4]}
    later = 100.0 + rests[4]
    assert endpoints.choose([due(1, "x"), due(2, "x")], later) == [due(1, "x")]
    endpoints.succeeded("a x")
    assert len(endpoints.choose([due(1, "x"), due(2, "x"), due(3, "x")], later)) == 3


def test_what_this_sender_has_under_way_is_not_sent_twice() -> None:
    """Its hold may have run out while the process stood still."""
    endpoints = Endpoints(CONFIG, Random(1))
    started(endpoints, [due(1, "x")])
    assert endpoints.choose([due(1, "x")], 0.0) == []


def test_endpoints_are_forgotten_but_those_that_rest() -> None:
    endpoints = Endpoints(CONFIG, Random(1))
    for _ in range(5):
        endpoints.failed("a dead", 0.0)
    for number in range(20_000):
        endpoints.failed(f"a {number}", 0.0)
    assert "a dead" in endpoints.resting(0.0)
    assert len(endpoints._known) <= 10_001
