"""Broadcast: the rules by which a thousand hosts hand one file to each other. Pure: no I/O, no clock, no chance."""
