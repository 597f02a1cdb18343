"""Commit: turns verified states of files into numbered versions of a dataset."""
