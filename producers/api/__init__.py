"""The HTTP service of generation jobs: the public API on one port, the workers' endpoint on another, one process."""
