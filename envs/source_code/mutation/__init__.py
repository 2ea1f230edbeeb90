"""Mutation of programs: faults put into them on purpose."""
