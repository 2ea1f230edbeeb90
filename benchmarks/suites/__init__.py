"""Suites of experiments: what they consist of, cost and result in; docs/experiments.md."""
