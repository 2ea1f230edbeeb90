"""Measures of cooperation: credit, cross-play, necessity of a team, and rescoring; docs/cooperation.md."""
