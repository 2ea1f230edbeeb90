"""Sampling tokens and scoring completions, fast on a CPU too."""
