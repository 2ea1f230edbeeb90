"""Data sets: sources of problems, reading of their rows, and rows that are known to be wrong."""
