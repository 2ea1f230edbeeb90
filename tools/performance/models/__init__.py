"""Sampling, learning and whole updates beside floors and peers."""
