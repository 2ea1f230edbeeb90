"""Training runs: from a configuration to a folder, and back to numbers."""
