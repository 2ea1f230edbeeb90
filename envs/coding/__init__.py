"""Coding: a helper and an entry function, written by two agents or more, graded by tests."""
