"""Episodes as data sets; docs/datasets.md."""
