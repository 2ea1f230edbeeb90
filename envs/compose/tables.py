"""Parts of the programs in `exchange.py`: this code runs in the sandbox, under names that no agent writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def _exchange_results(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], mark: str
) -> None:
    """Print a line with a mark, then, as JSON, a function's parameters and the text of its result of each call.

    The text is empty where the function raises, or where it is too long to be that of a value of a chain.
    """
    from copy import deepcopy
    from inspect import signature
    from json import dumps

    def text(call: tuple[Any, ...]) -> str:
        try:
            result = repr(function(*deepcopy(call)))
        except (Exception, SystemExit):
            return ""
        return result if len(result) <= 2000 else ""

    texts = [text(call) for call in calls]
    try:
        parameters = [
            p.name
            for p in signature(function).parameters.values()
            if p.kind == p.POSITIONAL_OR_KEYWORD
        ]
    except (TypeError, ValueError):
        parameters = []
    print(f"\n{mark}{dumps([parameters, texts])}", flush=True)


def _exchange_table(
    parameters: Sequence[str], rows: Sequence[tuple[tuple[Any, ...], str]]
) -> Callable[..., Any]:
    """Return a function that knows the results of some calls, given as texts of literals, and no others."""
    from ast import literal_eval

    def answer(*values: Any, **named: Any) -> Any:
        call = (*values, *(named[name] for name in parameters[len(values) :] if name in named))
        for row, text in rows:
            if row == call:
                return literal_eval(text)
        raise LookupError("no step of the chain calls the helper so")

    return answer
