"""Mistakes of the person at the keyboard: one clear line, no traceback, exit code 2."""

from __future__ import annotations


class ConfigError(ValueError):
    """Something in a configuration or on a command line is wrong; the text says what to change."""
