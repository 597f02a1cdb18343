"""The caster: hashes a file with every core, says on the log what it finds, and vouches that it is one whole state."""
