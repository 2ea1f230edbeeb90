"""Gathering on a map on which each agent sees only what the others need: the family `gather-v0`."""
