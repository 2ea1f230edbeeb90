"""Experiments with this library and their findings: not in the wheel."""
