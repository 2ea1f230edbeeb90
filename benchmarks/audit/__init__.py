"""Audit of data sets: their texts, references, tests and rewards; docs/data.md."""
