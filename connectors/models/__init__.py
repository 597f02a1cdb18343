"""What makes videos, behind one small protocol. A model is a black box: its own process runs it (consumers/worker)."""
