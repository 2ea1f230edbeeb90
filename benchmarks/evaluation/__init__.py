"""Evaluation: a team plays every task several times, and is measured with intervals; docs/evaluation.md."""
