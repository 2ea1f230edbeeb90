"""Test functions, read and rewritten before they run."""
