"""What the dashboards of generation jobs show, after the manner of ``panels``."""

from __future__ import annotations

from headwater.stack.panel import Dashboard, Panel, quantiles

JOBS = Dashboard(
    "jobs",
    "Headwater: generation jobs",
    (
        Panel(
            "Promises: share broken, within the hour",
            {
                "api: 5xx": 'sum(rate(headwater_api_requests_total{status=~"5.."}[1h]))'
                " / sum(rate(headwater_api_requests_total[1h]))",
                "start: later than 5 minutes": "1 - sum(rate(headwater_job_wait_seconds_bucket{le='300.0'}[1h]))"
                " / sum(rate(headwater_job_wait_seconds_count[1h]))",
                "results: failed": 'sum(rate(headwater_job_failures_total{verdict="ended"}[1h]))'
                ' / (sum(rate(headwater_job_failures_total{verdict="ended"}[1h]))'
                " + sum(rate(headwater_jobs_completed_total[1h])))",
            },
            "percentunit",
            "The alerts HeadwaterSloBurning and HeadwaterSloSpending look at these; they leave out input at fault.",
        ),
        Panel("Jobs that wait", {"{{pool}} {{priority}}": "sum by (pool, priority) (headwater_job_queue_depth)"}),
        Panel(
            "How long the first in line has waited",
            {"{{pool}}": "max by (pool) (headwater_job_queue_age_seconds)"},
            "s",
        ),
        Panel(
            "Share of the GPUs in use",
            {"{{pool}}": 'sum by (pool) (headwater_job_slots{state="busy"}) / sum by (pool) (headwater_job_slots)'},
            "percentunit",
            "Low while jobs wait: the alert HeadwaterJobsNotStarting.",
        ),
        Panel(
            "Workers, and slots",
            {
                "{{pool}} workers": "sum by (pool) (headwater_job_workers)",
                "{{pool}} slots {{state}}": "sum by (pool, state) (headwater_job_slots)",
            },
            note="The alert HeadwaterPoolWithoutWorkers looks at workers.",
        ),
        Panel("From acceptance to a worker", quantiles("headwater_job_wait_seconds", "pool"), "s"),
        Panel("From a worker to the result", quantiles("headwater_job_run_seconds", "model"), "s"),
        Panel(
            "Results a minute",
            {"{{pool}}": "60 * sum by (pool) (rate(headwater_jobs_completed_total[5m]))"},
        ),
        Panel(
            "Failures a minute, by code",
            {
                "{{pool}} {{code}} {{verdict}}": "60 * sum by (pool, code, verdict)"
                " (rate(headwater_job_failures_total[5m]))"
            },
        ),
        Panel(
            "Attempts a completed job took, mean",
            {
                "{{pool}}": "sum by (pool) (rate(headwater_job_attempts_sum[1h]))"
                " / sum by (pool) (rate(headwater_job_attempts_count[1h]))"
            },
        ),
        Panel(
            "Lost workers: leases that ran out, writes refused, within the hour",
            {
                "{{pool}} leases": "sum by (pool) (increase(headwater_leases_expired_total[1h]))",
                "stale {{verb}}": "sum by (verb) (increase(headwater_job_stale_writes_total[1h]))",
                "all spared": "sum(increase(headwater_leases_spared_total[1h]))",
            },
            note="The alert HeadwaterLeasesLost looks at leases.",
        ),
        Panel(
            "GPU time, in GPUs",
            {"{{pool}} {{use}}": "sum by (pool, use) (rate(headwater_job_gpu_seconds_total[5m]))"},
            note="As if so many GPUs did only that.",
        ),
        Panel(
            "Charged an hour",
            {"{{pool}}": "3600 * sum by (pool) (rate(headwater_job_cost_millionths_total[1h])) / 1e6"},
            note="In the currency itself.",
        ),
        Panel(
            "Charged for a completed job",
            {
                "{{pool}}": "sum by (pool) (rate(headwater_job_cost_millionths_total[1h])) / 1e6"
                " / sum by (pool) (rate(headwater_jobs_completed_total[1h]))"
            },
        ),
    ),
)

JOB_SERVICE = Dashboard(
    "job-service",
    "Headwater: the service of jobs and its webhooks",
    (
        Panel(
            "Requests a second",
            {
                "{{method}} {{route}} {{status}}": "sum by (method, route, status)"
                " (rate(headwater_api_requests_total[5m]))"
            },
            "reqps",
        ),
        Panel("Time to answer", quantiles("headwater_api_request_seconds", "route"), "s"),
        Panel(
            "Submitted jobs a minute, by outcome",
            {"{{outcome}}": "60 * sum by (outcome) (rate(headwater_api_admissions_total[5m]))"},
        ),
        Panel("Clients that follow jobs", {"{{kind}}": "sum by (kind) (headwater_api_streams)"}),
        Panel(
            "Grants a second",
            {"{{pool}} {{outcome}}": "sum by (pool, outcome) (rate(headwater_job_grants_total[5m]))"},
            "ops",
        ),
        Panel("A pass of the scheduler", quantiles("headwater_dispatch_pass_seconds", "pool"), "s"),
        Panel(
            "How old each pool's board is",
            {"{{pool}}": "time() - max by (pool) (headwater_dispatch_time_seconds)"},
            "s",
            "One second is normal. The alert HeadwaterDispatchStopped looks at this.",
        ),
        Panel(
            "Claims and beats a second",
            {
                "claims {{outcome}}": "sum by (outcome) (rate(headwater_job_claims_total[5m]))",
                "beats {{outcome}}": "sum by (outcome) (rate(headwater_job_beats_total[5m]))",
            },
            "ops",
        ),
        Panel(
            "Changes that wait for Kafka",
            {"age in seconds": "max(headwater_outbox_age_seconds)", "rows": "max(headwater_outbox_rows)"},
            note="The alert HeadwaterOutboxStuck looks at the age.",
        ),
        Panel(
            "Outbox and sweep",
            {
                "sent a second": "sum(rate(headwater_outbox_sent_total[5m]))",
                "{{kind}} removed a minute": "60 * sum by (kind) (rate(headwater_swept_total[5m]))",
                "seconds since leases were looked at": "time() - max(headwater_sweep_time_seconds)",
            },
            note="The alert HeadwaterSweepStopped looks at the last.",
        ),
        Panel(
            "Slots of each worker",
            {"{{instance}} {{state}}": "sum by (instance, state) (headwater_worker_slots)"},
        ),
        Panel(
            "Attempts that workers ended, a minute",
            {
                "{{instance}} {{outcome}}": "60 * sum by (instance, outcome)"
                " (rate(headwater_worker_attempts_total[5m]))",
                "{{instance}} crashes": "60 * sum by (instance) (rate(headwater_worker_model_crashes_total[5m]))",
            },
            note="The alert HeadwaterModelCrashing looks at crashes.",
        ),
        Panel(
            "Jobs a batch, and cut off",
            {
                "{{instance}} jobs a batch": "sum by (instance) (rate(headwater_worker_batch_jobs_sum[5m]))"
                " / sum by (instance) (rate(headwater_worker_batch_jobs_count[5m]))",
                "{{instance}} cut off for seconds": "max by (instance) (headwater_worker_cut_off_seconds)",
            },
            note="The alert HeadwaterWorkerCutOff looks at the second.",
        ),
        Panel("Time to probe and store a result", quantiles("headwater_worker_upload_seconds", "instance"), "s"),
        Panel(
            "Webhooks a minute, by outcome",
            {"{{outcome}}": "60 * sum by (outcome) (rate(headwater_webhook_attempts_total[5m]))"},
            note="The alert HeadwaterWebhooksGivenUp looks at given_up.",
        ),
        Panel(
            "From a job's end to its delivered webhook", quantiles("headwater_webhook_delay_seconds", "instance"), "s"
        ),
        Panel("Time of a POST", quantiles("headwater_webhook_seconds", "instance"), "s"),
        Panel(
            "Webhooks that wait",
            {
                "the oldest, seconds": "max(headwater_webhook_age_seconds)",
                "POSTs under way": "sum(headwater_webhook_posts)",
                "endpoints that rest": "max(headwater_webhook_resting_endpoints)",
            },
            note="The alert HeadwaterWebhooksBehind looks at the oldest.",
        ),
    ),
)
