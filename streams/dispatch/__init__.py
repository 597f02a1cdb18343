"""The schedulers of pools (``headwater run dispatch``): which waiting job goes to which worker, and when.

jobs.requested, jobs.events ─► group.py ─┐
                                         ├─► pool.py, the state of a pool ─► granting.py ─► catalog, jobs.grants
catalog ─► looking.py, once a second ────┘                              └─► pools.board, metrics
"""
