"""Clients of our own HTTP service."""
