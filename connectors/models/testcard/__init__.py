"""A model that needs no GPU: it draws a test card with the prompt on it, as a true video, the same each time."""
