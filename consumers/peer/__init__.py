"""Broadcast, the receiving end: a peer fetches a cast's chunks from others, proves them, and hands them on."""
