"""Shared parts of families with a known optimum: rules, generated tasks, commands, grids, pictures, strategies."""
