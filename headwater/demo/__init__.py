"""``headwater demo``: the main jobs on real media, on the real stack: from an empty folder to two verified versions,
one file to eight hosts, and videos from prompts."""
