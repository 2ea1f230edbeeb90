"""A choice for which all agents' facts count, and for which private views mislead: the family `pooled-v0`."""
