"""Untrusted process: one program, forked from the zygote, that answers calls with values."""
