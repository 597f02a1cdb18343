"""What is decided, without I/O and clock: one host's part in one cast, and how the origin hands out its chunks."""
