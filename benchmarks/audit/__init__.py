"""What can be wrong with a data set; docs/data.md."""
