"""The GPU worker (``headwater worker``): claims jobs, runs a model, reports results.

log, endpoint ─► supervisor (owns all that is decided) ─► hosts (processes, one loaded model each)
                       │  ▲
                       ▼  └── claims, beats, reports, finishing: threads around it
                 endpoint, S3
"""
