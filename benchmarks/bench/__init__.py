"""Suites of experiments, run and compared; docs/bench.md."""
