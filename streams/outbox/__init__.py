"""The outbox of jobs (``headwater run outbox``): what the database decided, told on the log."""
