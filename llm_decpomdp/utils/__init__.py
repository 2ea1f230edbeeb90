"""Utilities that all parts share: files, the terminal, the hub, warnings."""
