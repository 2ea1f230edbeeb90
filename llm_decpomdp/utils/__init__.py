"""Utilities that all parts share: files, the terminal, the answer in a completion, the hub, warnings."""
