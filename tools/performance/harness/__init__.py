"""Variants run in turn, each in processes of its own, compared and printed."""
