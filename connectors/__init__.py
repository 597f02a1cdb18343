"""Clients of the servers, a package each.

None of these packages imports its modules: the settings read every ``config``, and a process loads only the clients
that it uses (those of lakeFS and S3 take longer to import than most commands to run).
"""
