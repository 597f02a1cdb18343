"""Starts, stops and inspects the local stack, and supervises our own detached processes."""
