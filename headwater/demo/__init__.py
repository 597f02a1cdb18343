"""``headwater demo``: the main jobs on real media, on the real stack: from an empty folder to two verified versions,
and one file to eight hosts."""
