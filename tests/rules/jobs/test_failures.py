"""What a failure means: budgets that end, waits within their bounds, and the table that operators extend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.rules.jobs.failures import KINDS, FailurePolicy, Kind, Past, backoff, code_in, judge, kind_of

POLICY = FailurePolicy()
CODES = st.sampled_from(sorted(KINDS))


def lived_through(codes: list[str], policy: FailurePolicy = POLICY, chance: float = 0.5) -> list[bool]:
    """Whether each attempt in turn was tried again, until one was not."""
    past, retried = Past(), []
    for code in codes:
        verdict = judge(code, past, policy, chance)
        past = verdict.past
        retried.append(verdict.retry)
        if not verdict.retry:
            break
    return retried


def test_a_permanent_failure_ends_the_job_at_once_and_counts_nothing():
    verdict = judge("content_refused", Past(failures=1), POLICY, 0.9)

    assert (verdict.retry, verdict.code, verdict.past) == (False, "content_refused", Past(failures=1))


def test_each_kind_has_a_budget_of_its_own():
    assert lived_through(["driver"] * 9) == [True] * 4 + [False]
    assert lived_through(["crashed"] * 9) == [True] * 2 + [False]
    assert lived_through(["lease_lost"] * 30) == [True] * 19 + [False]
    assert lived_through((["lease_lost"] * 4 + ["driver"]) * 4 + ["crashed"] * 2) == [True] * 22


def test_a_lost_lease_is_tried_again_at_once_and_where_it_was():
    verdict = judge("lease_lost", Past(same_code=10), POLICY, 0.99)

    assert (verdict.wait_seconds, verdict.fallback) == (0.0, False)


def test_the_third_crash_on_one_input_names_the_input():
    verdict = judge("crashed", Past(crashes=2), POLICY, 0.5)

    assert (verdict.retry, verdict.code) == (False, "repeated_crash")


def test_a_code_that_repeats_in_a_pool_moves_the_job():
    assert not judge("out_of_memory", Past(), POLICY, 0.5).fallback
    assert judge("out_of_memory", Past(failures=1, same_code=1), POLICY, 0.5).fallback
    assert not judge("out_of_memory", Past(failures=1), POLICY, 0.5).fallback  # it was another code


def test_operators_name_codes_of_their_own_and_overrule_ours():
    policy = FailurePolicy(kinds={"license_gone": Kind.permanent, "bad_output": Kind.permanent})

    assert not judge("license_gone", Past(), policy, 0.5).retry
    assert not judge("bad_output", Past(), policy, 0.5).retry
    assert kind_of("license_gone", POLICY) is Kind.transient  # unknown: bounded by the budget


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_uniform_below_a_bound_that_doubles_up_to_the_longest(times, chance):
    bound = min(300, 2**times)

    assert backoff(times, POLICY, chance) == pytest.approx(chance * bound)


@given(st.lists(CODES, min_size=1, max_size=200), st.floats(0, 1, exclude_max=True))
def test_every_job_ends_within_its_budgets(codes, chance):
    retried = lived_through(codes, chance=chance)

    assert len(retried) <= POLICY.transient_budget + POLICY.crash_budget + POLICY.lease_budget - 2
    assert all(retried[:-1])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "out_of_memory"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "driver"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "driver"),
        ("OSError: [Errno 28] No space left on device", "node"),
        ("ValueError: a latent has the wrong shape", None),
    ],
)
def test_what_frameworks_and_the_kernel_say_is_known(text, code):
    assert code_in(text) == code


@pytest.mark.parametrize("wrong", [{"transient_budget": 0}, {"wait_seconds": 400.0}, {"fallback_after": 0}])
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        FailurePolicy(**wrong)
