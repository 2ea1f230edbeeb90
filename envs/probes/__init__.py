"""Probes: games of single letters with known answers, for finding mistakes of learners."""
