"""Variants run in turn, compared and shown."""
