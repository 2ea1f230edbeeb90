"""Writes entries of benign programs down."""

from __future__ import annotations

import textwrap

from tests.attacks.entry import Benign


def benign(name: str, code: str, test: str, entry_point: str = "sq") -> Benign:
    """An entry whose test is the body of `check(candidate)`; indentation common to all lines is removed."""
    check = f"def check(candidate):\n{textwrap.indent(textwrap.dedent(test).strip(), '    ')}\n"
    return Benign(name, textwrap.dedent(code).lstrip("\n"), check, entry_point)
