"""Measurements for a machine with a GPU: one command, and steps that survive each other."""
