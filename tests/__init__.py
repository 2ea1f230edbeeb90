"""A regular package: one that an installed distribution calls `tests` cannot take its place."""
