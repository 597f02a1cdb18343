"""``headwater demo``: the main job on real media, on the real stack, from an empty folder to two verified versions."""
