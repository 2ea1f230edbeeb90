"""Arguments that are either on or off."""

from __future__ import annotations


def check_flags(**flags: object) -> None:
    """Refuse anything but True and False, so that a text such as "no" never counts as yes.

    Raises:
        ValueError: If one is neither; names it and its value.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")
