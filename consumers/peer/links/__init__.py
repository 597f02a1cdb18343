"""The control plane: what hosts tell each other besides chunks."""
