"""The metrics of generation jobs: more of ``headwater.observe.metrics``, which says what a metric must say.

``ALL`` holds every metric of ours, these and those.
"""

from __future__ import annotations

from headwater.observe.metrics import ALL, counter, gauge, histogram

__all__ = ["ALL"]

FAST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Buckets for what a person or a client waits for."""
LONG = (0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0)
"""Buckets for what takes from milliseconds on an idle fleet to a day behind a long queue."""


# The API

API_REQUESTS = counter(
    "api_requests",
    "Requests of tenants by route and status. Any 5xx is ours: 503 says that PostgreSQL is away.",
    "route",
    "method",
    "status",
)
API_SECONDS = histogram(
    "api_request_seconds", "Time to answer a request, streams excepted.", "route", "method", buckets=FAST
)
API_STREAMS = gauge("api_streams", "Clients that follow jobs now, by kind: sse, websocket.", "kind")
API_ADMISSIONS = counter(
    "api_admissions",
    "Submitted jobs by outcome: accepted, deferred (it will be late, and the client allows that), replayed (same "
    "Idempotency-Key), and refused: queue (it would start too late), quota, deadline (it cannot be met).",
    "outcome",
)

# Dispatch: each pool's scheduler says it once a second

JOB_QUEUE_DEPTH = gauge("job_queue_depth", "Jobs that wait for a worker.", "pool", "priority")
JOB_QUEUE_AGE_SECONDS = gauge("job_queue_age_seconds", "Age of the job that waits longest; 0 where none waits.", "pool")
JOB_SLOTS = gauge(
    "job_slots",
    "Slots of a pool's workers, busy or free. Busy over both is the share of the GPUs in use.",
    "pool",
    "state",
)
JOB_WORKERS = gauge("job_workers", "Workers of a pool that take jobs.", "pool")
JOB_GRANTS = counter(
    "job_grants",
    "Jobs offered to workers by outcome: granted, and refused by the catalog since another had moved first: gone, "
    "worker, tenant.",
    "pool",
    "outcome",
)
DISPATCH_SECONDS = histogram(
    "dispatch_pass_seconds",
    "Time of one pass of a pool's scheduler, from its choice to its grants.",
    "pool",
    buckets=FAST,
)
DISPATCH_TIME = gauge(
    "dispatch_time_seconds", "Unix time of the newest board of a pool. Long in the past: no scheduler has it.", "pool"
)

# Attempts: the internal endpoint says it, as the catalog decided it

JOB_WAIT_SECONDS = histogram(
    "job_wait_seconds", "From a job's acceptance to the claim of its first attempt.", "pool", buckets=LONG
)
JOB_RUN_SECONDS = histogram(
    "job_run_seconds", "From the claim to the result, of attempts that completed.", "pool", "model", buckets=LONG
)
JOB_ATTEMPTS = histogram(
    "job_attempts",
    "Attempts that a completed job took. Much above 1: workers die, or the model fails.",
    "pool",
    buckets=(1, 2, 3, 5, 10, 20),
)
JOB_CLAIMS = counter(
    "job_claims", "Grants that workers came for: claimed, or gone (cancelled, expired, too late).", "outcome"
)
JOB_BEATS = counter(
    "job_beats",
    "Beats by outcome: extended; stalled (the model moves no step: the lease runs out); cancel; lost.",
    "outcome",
)
JOB_COMPLETED = counter("jobs_completed", "Jobs that completed, each with one result.", "pool")
JOB_STALE_WRITES = counter(
    "job_stale_writes",
    "Writes of attempts that the job had left behind, refused, by verb. They are how a paused worker shows.",
    "verb",
)
JOB_FAILURES = counter(
    "job_failures",
    "Failed attempts by their code, and by whether the job goes on (retried) or not (ended).",
    "pool",
    "code",
    "verdict",
)
JOB_GPU_SECONDS = counter(
    "job_gpu_seconds",
    "GPU time of attempts that ended: charged, or lost to failures and cancels. What dead workers spent nobody knows.",
    "pool",
    "use",
)
JOB_COST = counter("job_cost_millionths", "What completed jobs were charged, in millionths of the currency.", "pool")

# Workers

WORKER_SLOTS = gauge("worker_slots", "Slots of this worker by state: free, loading, generating, finishing.", "state")
WORKER_ATTEMPTS = counter(
    "worker_attempts",
    "Attempts that this worker ended: completed, failed, cancelled, lost (its lease is another's), released (drained).",
    "outcome",
)
WORKER_CRASHES = counter(
    "worker_model_crashes", "Times that the model's process died, or was killed as it hung or did not stop."
)
WORKER_BATCH = histogram("worker_batch_jobs", "Jobs that the model made together.", buckets=(1, 2, 4, 8, 16, 32, 64))
WORKER_UPLOAD_SECONDS = histogram("worker_upload_seconds", "Time to probe a result and store it in S3.", buckets=FAST)
WORKER_CUT_OFF_SECONDS = gauge(
    "worker_cut_off_seconds",
    "Time since the endpoint last answered this worker. Beyond the lease its jobs go elsewhere.",
)

# Outbox and sweep

OUTBOX_SENT = counter("outbox_sent", "Changes of jobs that Kafka acknowledged.")
OUTBOX_ROWS = gauge("outbox_rows", "Changes of jobs that Kafka does not have yet, about.")
OUTBOX_AGE_SECONDS = gauge(
    "outbox_age_seconds", "Age of the oldest change that Kafka does not have; schedulers find it by their rescans only."
)
LEASES_EXPIRED = counter("leases_expired", "Leases that ran out: the worker died, hangs or was cut off.", "pool")
LEASES_SPARED = counter(
    "leases_spared", "Times that all leases got a full term, since beats could not be heard or leases not be watched."
)
SWEPT = counter("swept", "What was removed in its time: outputs of lost attempts, results, idempotency keys.", "kind")
SWEEP_TIME = gauge(
    "sweep_time_seconds", "Unix time of the last look at leases. Long in the past: dead workers keep theirs."
)

# Webhooks

WEBHOOK_ATTEMPTS = counter(
    "webhook_attempts",
    "POSTs by outcome: delivered, failed (tried again), given_up (that was the last), disabled (410, or no secret).",
    "outcome",
)
WEBHOOK_SECONDS = histogram("webhook_seconds", "Time of one POST until its answer.", buckets=FAST)
WEBHOOK_DELAY_SECONDS = histogram(
    "webhook_delay_seconds", "From the final state of a job to its delivered webhook.", buckets=LONG
)
WEBHOOK_AGE_SECONDS = gauge(
    "webhook_age_seconds", "How long the oldest delivery that is due waits. Endpoints that rest are not due."
)
WEBHOOK_RESTING = gauge("webhook_resting_endpoints", "Endpoints that failed so often that nothing is sent for a while.")
WEBHOOK_BUSY = gauge("webhook_posts", "POSTs under way. At webhooks.threads more processes are needed.")
