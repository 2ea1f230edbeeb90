"""Trusted process: runs the tests, and asks the program for values."""
