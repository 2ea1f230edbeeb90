"""Two coders that share the work of a program: a suite with declared hypotheses, and its table."""
