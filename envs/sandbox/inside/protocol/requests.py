"""Names of requests that evaluator and program share."""

from __future__ import annotations

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
"""Operations on objects, named as in `operator`."""

CHANGES = 4
"""Number of kinds of change to a helper's results, see `changes`."""
