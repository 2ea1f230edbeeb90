"""Data sets: where problems come from, how their rows are read, and which rows are known to be wrong."""
