"""What the evaluator may ask of a program's objects and helpers, by the names that cross between them."""

from __future__ import annotations

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
"""Operations on objects, named as in `operator`."""

CHANGES = 4
"""How many kinds of change a helper's results can be given, from 0 on."""
