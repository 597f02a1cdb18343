"""Verify: stored objects are read back, each verified or condemned."""
