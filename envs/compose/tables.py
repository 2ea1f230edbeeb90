"""Tables in the place of helpers, as a part of the program in `exchange.py`: this code runs in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def tables(
    program: dict[str, Any],
    helpers: Sequence[tuple[str, Sequence[tuple[Any, ...]], Sequence[str]]],
    permutation: Sequence[int],
    encoding: bool,
) -> Callable[[int, Any], list[Any]]:
    """Replace a program's helpers by tables of their results, before the entry function is there.

    Args:
        program: The namespace of the program, which has the helpers.
        helpers: Of each helper its name, the calls that its table knows, a row for each test and perhaps more such
            rows, and other names, under which a table gives wrong results.
        permutation: For each test the one whose result is given in place of its own.
        encoding: Look at the integers in the text of results, as long as nothing else differs between them.

    Returns:
        A function of the number of a helper, whose results are exchanged, and of the argument of a test: the list
        of `main`'s answer, and of all different results of that helper which it was given.
    """
    from ast import literal_eval
    from copy import deepcopy
    from inspect import signature
    from re import findall, sub

    integer = r"(?<!\d)-?\d+"
    target, received = -1, []

    def result(function: Callable[..., Any], call: tuple[Any, ...]) -> str:
        try:
            return repr(function(*deepcopy(call)))
        except Exception:
            return "raises"  # no literal: a call of the table raises, too

    def table(number: int, name: str, calls: Sequence[Any], decoy: bool) -> Callable[..., Any]:
        function = program[name]
        texts = [result(function, call) for call in calls]
        forms = {sub(integer, "#", text) for text in texts} - {"raises"}

        def answer(*values: Any, **named: Any) -> Any:
            call = signature(function).bind(*values, **named).args if named else values
            row, test = divmod(calls.index(call), len(permutation))
            for _ in range((number == target) + decoy):
                test = permutation[test]
            text = texts[row * len(permutation) + test]
            value = literal_eval(text)
            if number == target and not decoy:
                integers = [int(part) for part in findall(integer, text)]
                received.append(value if not encoding else integers if len(forms) == 1 else None)
            return value

        return answer

    aliases = {
        alias: table(number, name, calls, alias != name)
        for number, (name, calls, decoys) in enumerate(helpers)
        for alias in (name, *decoys)
    }
    program.update(aliases)

    def entry(number: int, argument: Any) -> list[Any]:
        nonlocal target
        target = number
        received.clear()
        answer = program["main"](argument)
        return [answer, [value for i, value in enumerate(received) if value not in received[:i]]]

    return entry
