"""Writing: two agents write two texts about one source."""
