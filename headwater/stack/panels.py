"""What our dashboards show: graph by graph, each a query on metrics of ``headwater.observe.metrics``."""

from __future__ import annotations

from headwater.stack.job_panels import JOB_SERVICE, JOBS
from headwater.stack.panel import Dashboard, Panel, quantiles

LAG = Dashboard(
    "lag",
    "Headwater: lag",
    (
        Panel(
            "How old is what waits",
            {"{{group}} {{topic}}": "max by (group, topic) (headwater_group_lag_seconds)"},
            "s",
            "The alert HeadwaterLagGrowing looks at this.",
        ),
        Panel("How many records wait", {"{{group}} {{topic}}": "sum by (group, topic) (headwater_group_lag_records)"}),
        Panel(
            "Does it grow, in records a second",
            {"{{group}}": "sum by (group) (deriv(headwater_group_lag_records[15m]))"},
            note="Above 0 more arrives than is worked off.",
        ),
        Panel("Records a second", {"{{group}}": "sum by (group) (rate(headwater_group_records_total[5m]))"}, "ops"),
        Panel(
            "Processed up to",
            {"{{group}}": "time() - min by (group) (headwater_group_oldest_unprocessed_event_time_seconds)"},
            "s",
            "Shown as an age: time since then.",
        ),
        Panel(
            "The partitions with most records waiting",
            {"{{group}} {{topic}}/{{partition}}": "topk(10, headwater_group_lag_records)"},
        ),
    ),
)

SYNC = Dashboard(
    "sync",
    "Headwater: from disk to version",
    (
        Panel(
            "Files known, and on their way",
            {
                "{{source}} known": "sum by (source) (headwater_agent_files)",
                "{{source}} on their way": "sum by (source) (headwater_agent_pending)",
            },
        ),
        Panel(
            "Halted, or silent",
            {
                "{{source}} halted": "max by (source) (headwater_agent_halted)",
                "{{source}} silent, in minutes": "max by (source) (headwater_source_silent_seconds) / 60",
            },
            note="The alerts HeadwaterSourceHalted and HeadwaterAgentSilent look at these.",
        ),
        Panel(
            "Before the log",
            {
                "{{source}} settling": "sum by (source) (headwater_agent_settling)",
                "{{source}} outbox": "sum by (source) (headwater_agent_outbox)",
                "{{source}} excepted": "sum by (source) (headwater_agent_exceptions)",
            },
        ),
        Panel(
            "Every directory was listed within",
            {"{{source}}": "max by (source) (headwater_agent_listing_age_seconds)"},
            "s",
        ),
        Panel(
            "Bytes a second: read, sent, read back",
            {
                "{{source}} read": "sum by (source) (rate(headwater_agent_read_bytes_total[5m]))",
                "{{lane}} sent": "sum by (lane) (rate(headwater_upload_bytes_total[5m]))",
                "{{lane}} read back": "sum by (lane) (rate(headwater_verify_bytes_total[5m]))",
                "{{lane}} not sent, known": "sum by (lane) (rate(headwater_upload_skipped_bytes_total[5m]))",
            },
            "Bps",
        ),
        Panel(
            "Objects a second, by what became of them",
            {
                "{{lane}} {{outcome}}": "sum by (lane, outcome) (rate(headwater_upload_objects_total[5m]))",
                "{{lane}} {{verdict}}": "sum by (lane, verdict) (rate(headwater_verify_objects_total[5m]))",
            },
            "ops",
            "The alert HeadwaterVerificationMismatch looks at condemned.",
        ),
        Panel("Time to send one", quantiles("headwater_upload_seconds", "lane"), "s"),
        Panel("Time to read back one", quantiles("headwater_verify_seconds", "lane"), "s"),
        Panel("Changes that wait for a version", {"{{dataset}}": "max by (dataset) (headwater_commit_uncommitted)"}),
        Panel(
            "Newest version, and what it lacks",
            {
                "{{dataset}} version": "max by (dataset) (headwater_commit_head)",
                "{{dataset}} exceptions": "max by (dataset) (headwater_commit_exceptions)",
            },
        ),
        Panel("Time to make a version", quantiles("headwater_commit_seconds", "dataset"), "s"),
        Panel(
            "Room for the state folder",
            {"{{instance}}": "min by (instance) (headwater_state_free_bytes / headwater_state_size_bytes)"},
            "percentunit",
            "The alert HeadwaterDiskFilling looks at this.",
        ),
    ),
)

DEAD_LETTERS = Dashboard(
    "dead-letters",
    "Headwater: dead letters and other trouble",
    (
        Panel(
            "Given up within the hour",
            {"{{group}}": "sum by (group) (increase(headwater_group_dead_letters_total[1h]))"},
            note="`headwater dead list` shows them.",
            kind="stat",
        ),
        Panel("Given up so far", {"{{group}}": "sum by (group) (headwater_group_dead_letters_total)"}),
        Panel(
            "Tried again, a minute",
            {
                "{{group}}": "60 * sum by (group) (rate(headwater_group_retries_total[5m]))",
                "committer of {{dataset}}": "60 * sum by (dataset) (rate(headwater_commit_retries_total[5m]))",
            },
        ),
        Panel(
            "Condemned within the hour",
            {"{{lane}}": 'sum by (lane) (increase(headwater_verify_objects_total{verdict="condemned"}[1h]))'},
            kind="stat",
        ),
        Panel(
            "Asked for again, a minute",
            {"{{source}} {{reason}}": "60 * sum by (source, reason) (rate(headwater_agent_requests_total[5m]))"},
        ),
        Panel("Of owners that were replaced", {"{{lane}}": "sum by (lane) (headwater_upload_stale_records_total)"}),
    ),
)

GROUPS = Dashboard(
    "groups",
    "Headwater: consumer groups",
    (
        Panel(
            "Members by what they do",
            {"{{group}} {{phase}}": "sum by (group, phase) (headwater_group_state) > 0"},
            note="The alert HeadwaterGroupStuck looks at degraded.",
        ),
        Panel(
            "Processes that answer", {"{{instance}}": 'up{job="headwater"}'}, note="1: Prometheus reaches the process."
        ),
        Panel("Time of a batch, step to commit", quantiles("headwater_group_batch_seconds", "group"), "s"),
        Panel("Time of a record in its step", quantiles("headwater_group_record_seconds", "group"), "s"),
        Panel(
            "How busy the step is",
            {
                "{{group}}": "sum by (group) (rate(headwater_group_records_total[5m]))"
                " * sum by (group) (rate(headwater_group_record_seconds_sum[5m]))"
                " / sum by (group) (rate(headwater_group_record_seconds_count[5m]))"
            },
            "percentunit",
            "Near 100 % of the members, the step itself is the limit.",
        ),
        Panel(
            "Share of time paused behind a long step",
            {"{{group}}": "sum by (group) (rate(headwater_group_paused_seconds_total[5m]))"},
            "percentunit",
        ),
        Panel(
            "Rebalances within the hour",
            {"{{group}}": "sum by (group) (increase(headwater_group_rebalances_total[1h]))"},
        ),
    ),
)

FLEET = Dashboard(
    "fleet",
    "Headwater: the whole fleet",
    (
        Panel(
            "Records a second, by stage",
            {"{{stage}}": "max by (stage) (headwater_view_records_per_second)"},
            "ops",
            "`headwater fleet` shows the same.",
        ),
        Panel("Bytes a second, by stage", {"{{stage}}": "max by (stage) (headwater_view_bytes_per_second)"}, "Bps"),
        Panel("What waits before each stage", {"{{stage}}": "max by (stage) (headwater_view_waiting_records)"}),
        Panel("How old is what waits", {"{{stage}}": "max by (stage) (headwater_view_behind_seconds)"}, "s"),
        Panel(
            "Groups by state",
            {"{{group}} {{state}}": "max by (group, state) (headwater_view_group_state) > 0"},
        ),
        Panel(
            "Silent groups",
            {"{{group}}": "max by (group) (headwater_view_group_silent_seconds)"},
            "s",
            "The alert HeadwaterGroupSilent looks at this.",
        ),
        Panel(
            "How old the views are",
            {"{{instance}}": "time() - max by (instance) (headwater_view_time_seconds)"},
            "s",
            "Shown as an age: ten to twenty seconds is normal.",
        ),
    ),
)

CASTS = Dashboard(
    "casts",
    "Headwater: casts",
    (
        Panel(
            "Hosts by what they have",
            {"{{cast}} {{state}}": "sum by (cast, state) (headwater_cast_hosts)"},
            note="HeadwaterCastStalled and HeadwaterCastExpiring look at this; `headwater cast watch` names the hosts.",
        ),
        Panel(
            "Bytes a second",
            {"{{cast}} {{rack}}": "sum by (cast, rack) (headwater_cast_bytes_per_second)"},
            "Bps",
        ),
        Panel(
            "Chunks of the last host, the median one, and of the rack together",
            {"{{cast}} {{rack}} {{whose}}": 'min by (cast, rack, whose) (headwater_cast_chunks_share{whose!="most"})'},
            "percentunit",
            "Together far above the median: the rack has the chunks, and hands them on slowly.",
        ),
        Panel(
            "Slow and silent hosts",
            {"{{cast}} {{rack}} {{state}}": 'max by (cast, rack, state) (headwater_cast_hosts{state=~"slow|silent"})'},
        ),
        Panel(
            "What went wrong, a minute",
            {"{{cast}} {{kind}}": "60 * max by (cast, kind) (rate(headwater_cast_events_total[5m]))"},
            note="The alert HeadwaterCastPeerBlamed looks at blamed.",
        ),
        Panel("Time until it expires", {"{{cast}}": "min by (cast) (headwater_cast_left_seconds)"}, "s"),
        Panel(
            "How old the summaries are",
            {"{{instance}}": "time() - max by (instance) (headwater_gossip_time_seconds)"},
            "s",
            "Shown as an age: one second is normal. The alert HeadwaterGossipSilent looks at this.",
        ),
        Panel(
            "Words of peers that say nothing, a minute",
            {"{{why}}": "60 * sum by (why) (rate(headwater_gossip_ignored_records_total[5m]))"},
        ),
    ),
)

DASHBOARDS = (LAG, SYNC, DEAD_LETTERS, GROUPS, FLEET, CASTS, JOBS, JOB_SERVICE)
