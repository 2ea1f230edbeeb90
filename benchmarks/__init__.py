"""Benchmarks: configurations, training, evaluation, suites, reports and the command line."""
