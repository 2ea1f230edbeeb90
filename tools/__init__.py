"""Measurements of speed, checks of the bundled data, and the documentation site: for development, not in the wheel."""
