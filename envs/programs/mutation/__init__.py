"""Faults put into programs on purpose."""
