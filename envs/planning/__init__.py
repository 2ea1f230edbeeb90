"""Planning with hints: a caller writes a hint, a planner acts on it, in turn."""
