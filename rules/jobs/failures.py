"""What the failure of an attempt means for its job: again, when, where, or never.

A worker says a *code*. The table of codes, which operators extend, says its *kind*, and each kind has a budget of its
own, because each says something else:

    permanent   the request itself cannot be served: trying again changes nothing
    transient   the place or the moment was bad: again after a wait, while the budget lasts
    crash       the model's process died over this input. Once, it may be the machine; repeatedly, it is the input, and
                the job is set aside before it takes down more workers
    lease       nobody heard of the worker in time: again at once, and often, since this is not the job's fault

Waits grow with the number of failures, with full jitter: uniform between nothing and the bound ("Exponential Backoff
And Jitter", AWS Architecture Blog, 2015), so that jobs that failed together do not come back together. A code that
repeats in one pool sends the job to the pool's fallback, whose hardware is another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Kind(StrEnum):
    permanent = "permanent"
    transient = "transient"
    crash = "crash"
    lease = "lease"


KINDS: dict[str, Kind] = {
    "invalid_input": Kind.permanent,  # the model understood the request and cannot serve it
    "content_refused": Kind.permanent,  # by the model's safety checker
    "input_refused": Kind.permanent,  # input_url leads nowhere, to something too large, or where we do not go
    "node": Kind.transient,  # the machine: a full disk, a lost mount
    "driver": Kind.transient,  # the GPU or its driver
    "out_of_memory": Kind.transient,  # at this size, on this hardware
    "spot_loss": Kind.transient,  # the provider took the machine back
    "model_unavailable": Kind.transient,  # it could not be loaded, or its server does not answer
    "model_failed": Kind.transient,  # it raised, and nothing says why
    "timed_out": Kind.transient,
    "bad_output": Kind.transient,  # what it made is no playable video
    "input_unavailable": Kind.transient,  # input_url does not answer now
    "upload_failed": Kind.transient,
    "internal": Kind.transient,  # of our own making
    "crashed": Kind.crash,
    "lease_lost": Kind.lease,
}
"""What we say ourselves. A code that is in no table is transient: its budget bounds what a wrong guess costs."""

REPEATED_CRASH = "repeated_crash"
LEASES_SPENT = "leases_spent"

_DOUBLINGS = 30
"""Beyond these a wait would be longer than any bound; it keeps 2 ** n a small number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePolicy:
    """How often each kind may happen to a job, and what operators add to the table of codes."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """Codes of models of your own (``command`` gives its exit codes names), or other kinds for ours."""
    transient_budget: int = 5
    """Attempts that may end so, the last one included: with the waits below, a node or a driver has minutes to heal."""
    crash_budget: int = 3
    """Two crashes may be one bad machine; three on one input hardly are."""
    lease_budget: int = 20
    """So many lost leases are an afternoon on spot machines; more, and the job is what kills them."""
    wait_seconds: float = 2.0
    """The bound of the first wait; it doubles each time."""
    longest_wait_seconds: float = 300.0
    fallback_after: int = 2
    """Failures with one code in one pool, after which the job goes to the pool's fallback, if it has one."""

    def __post_init__(self) -> None:
        for name in ("transient_budget", "crash_budget", "lease_budget", "fallback_after"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 <= self.wait_seconds <= self.longest_wait_seconds:
            raise ValueError("wait_seconds must lie between 0 and longest_wait_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """How often each kind happened to the job before; ``same_code``: this code among its attempts in this pool."""

    failures: int = 0
    crashes: int = 0
    leases_lost: int = 0
    same_code: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """``retry``: the job is queued again and due in ``wait_seconds``, in the fallback pool if ``fallback``. Otherwise
    it has failed, with ``code``. ``past`` has this failure counted.
    """

    retry: bool
    code: str
    kind: Kind
    past: Past
    wait_seconds: float = 0.0
    fallback: bool = False


def kind_of(code: str, policy: FailurePolicy) -> Kind:
    return policy.kinds.get(code) or KINDS.get(code, Kind.transient)


def judge(code: str, past: Past, policy: FailurePolicy, chance: float) -> Verdict:
    """What follows an attempt's failure with ``code``. ``chance`` is uniform in [0, 1)."""
    kind = kind_of(code, policy)
    if kind is Kind.permanent:
        return Verdict(False, code, kind, past)
    fallback = past.same_code + 1 >= policy.fallback_after
    if kind is Kind.lease:
        past = replace(past, leases_lost=past.leases_lost + 1)
        spent = past.leases_lost >= policy.lease_budget
        return Verdict(not spent, LEASES_SPENT if spent else code, kind, past)
    if kind is Kind.crash:
        past = replace(past, crashes=past.crashes + 1)
        if past.crashes >= policy.crash_budget:
            return Verdict(False, REPEATED_CRASH, kind, past)
        return Verdict(True, code, kind, past, backoff(past.crashes, policy, chance), fallback)
    past = replace(past, failures=past.failures + 1)
    if past.failures >= policy.transient_budget:
        return Verdict(False, code, kind, past)
    return Verdict(True, code, kind, past, backoff(past.failures, policy, chance), fallback)


def backoff(times: int, policy: FailurePolicy, chance: float) -> float:
    """Seconds until the next attempt after the ``times``-th failure (1, 2, …)."""
    bound = min(policy.longest_wait_seconds, policy.wait_seconds * (1 << min(times - 1, _DOUBLINGS)))
    return chance * bound


_SIGNATURES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("out_of_memory", re.compile(r"out of memory|OutOfMemory|MemoryError|Cannot allocate memory", re.IGNORECASE)),
    (
        "driver",
        re.compile(r"\bXid\b|CUDA error|CUDNN_STATUS|NVML|HIP error|NCCL error|device-side assert|uncorrectable ECC"),
    ),
    ("node", re.compile(r"No space left on device|Input/output error|Read-only file system|Stale file handle")),
)


def code_in(text: str) -> str | None:
    """The code that an error message of a model betrays, as PyTorch, CUDA and the kernel word theirs; None: nothing
    known. Only to be asked of what the model says on its own, never of text that could hold the prompt.
    """
    return next((code for code, signature in _SIGNATURES if signature.search(text)), None)
