"""The filesystem tail: finds every settled change of a directory tree, and says so on the log, exactly once each."""
