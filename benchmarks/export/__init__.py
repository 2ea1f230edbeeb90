"""Episodes as data sets; docs/data.md."""
