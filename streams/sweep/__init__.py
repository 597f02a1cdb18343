"""The sweeper of jobs (``headwater run sweep``): what ends because time passes.

sweep.py ─► connectors/jobs/expiry: leases, deadlines, four times a second
         └► remains.py: outputs, results and keys that nobody needs, once a minute
"""
