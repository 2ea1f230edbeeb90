"""Rows of the data sets that no correct program can satisfy, with the reason."""

KNOWN_ISSUES: dict[str, str] = {}
