"""Composition: one program of several agents, each of whom is told its own steps alone."""
