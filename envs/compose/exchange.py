"""The second run of a joint program, with exchanged results: does each agent's function do its own steps?

That a program passes tests does not say whose work it was: a helper can do everything and `main` hand it on, or
`main` do everything and only look whether it was called. So tables are put in the place of the helpers. Before
`main_0`'s code is there, each helper is called with every value that reaches its place when all do their steps.
Its table answers a call with one of these values by the result, as the plain value that its text says; any other
call is an error. For one helper at a time the table gives the results of other tests. Then a test passes if

- what the table gave is what the helper's own steps make of the value, and
- `main` returned what its own steps, and those of the other helpers, make of what it was given.

Conventions stay as they are, since it is the helper itself that was called: under its name, with its encoding, and
in the order of arguments that `main` takes. Under the other names that it could have, there are tables of wrong
results: an entry function that takes whatever name there is has agreed on none. The text of an encoding must have
both integers, and nothing else in it may differ between tests.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from llm_decpomdp.envs.compose.chains import MAX_EQUAL, Chain, run
from llm_decpomdp.envs.compose.roles import EntryRole, HelperRole, entry_place
from llm_decpomdp.envs.compose.steps import INPUTS
from llm_decpomdp.envs.compose.tables import tables
from llm_decpomdp.envs.compose.tasks import ComposeTask
from llm_decpomdp.envs.programs.completion import Reading
from llm_decpomdp.envs.sandbox import Program, Tests, instrument

TABLES = f"from __future__ import annotations\n{inspect.getsource(tables)}\n"

EXCHANGE = "exchange"
"""Name of the entry point."""


def exchange_program(
    task: ComposeTask,
    role: EntryRole,
    parts: Mapping[str, Reading],
    functions: Mapping[str, str],
) -> Program:
    """Return a program with tables in the place of helpers.

    Args:
        task: The task.
        role: The role of the entry function's author.
        parts: The code of each agent that has some, helpers first.
        functions: Name of each helper's function, by agent.
    """
    rows = ", ".join(
        f"({functions[helper.agent]!r}, [{', '.join(_calls(task, helper))}], "
        f"{[name for name in helper.names if name != functions[helper.agent]]})"
        for helper in _helpers(role, functions)
    )
    encoding = role.convention == "encoding"
    setup = f"{EXCHANGE} = tables(globals(), [{rows}], {_permutation(task)}, {encoding})\n"
    *codes, main = ((agent, part.code) for agent, part in parts.items())
    return Program((*codes, (EXCHANGE, TABLES + setup), main), EXCHANGE)


def exchange_tests(task: ComposeTask, role: EntryRole, functions: Mapping[str, str]) -> Tests:
    """Return the tests of that program: for each helper as many as the task has, in the order of `functions`."""
    permutation, lines = _permutation(task), []
    for number, helper in enumerate(_helpers(role, functions)):
        values, (before, chain) = _values(task, helper), _share(task, helper)
        for argument, value in zip(INPUTS[task.chain[0].source], values, strict=True):
            result = run(chain, values[permutation[values.index(value)]])
            answer = run(task.chain[before + len(chain) :], result)
            encoding = role.convention == "encoding"
            forms = [[*result], [*reversed(result)]] if encoding else [result]
            expected = [[answer, [form]] for form in forms]
            lines.append(f"    assert candidate({number}, {argument!r}) in {expected!r}\n")
    return instrument(f"def check(candidate):\n{''.join(lines)}", EXCHANGE)


def _helpers(role: EntryRole, functions: Mapping[str, str]) -> list[HelperRole]:
    return [helper for helper in role.helpers if helper.agent in functions]


def _share(task: ComposeTask, helper: HelperRole) -> tuple[int, Chain]:
    """Return the number of steps before those of a helper, and these."""
    shares = task.shares(helper.team)
    position = helper.number + (helper.number >= entry_place(task, helper.team))
    return sum(map(len, shares[:position])), shares[position]


def _values(task: ComposeTask, helper: HelperRole) -> list[Any]:
    """Return the value that a helper's steps begin with, for each test."""
    earlier = task.chain[: _share(task, helper)[0]]
    return [run(earlier, argument) for argument in INPUTS[task.chain[0].source]]


def _calls(task: ComposeTask, helper: HelperRole) -> list[str]:
    """Return the calls with these values, in Python; for `order` those of the other order, too."""
    values = [repr(value) for value in _values(task, helper)]
    if helper.convention != "order":
        return [f"({value},)" for value in values]
    constant = helper.share(task)[0].constant
    return [f"({v}, {constant})" for v in values] + [f"({constant}, {v})" for v in values]


def _permutation(task: ComposeTask) -> list[int]:
    """Return for each test another one, with another result.

    By the order of results it comes `MAX_EQUAL` places later, so that it is none of those with an equal result.
    """
    results = [repr(run(task.chain, argument)) for argument in INPUTS[task.chain[0].source]]
    order = sorted(range(len(results)), key=results.__getitem__)
    successors = order[MAX_EQUAL:] + order[:MAX_EQUAL]
    return [successors[order.index(test)] for test in range(len(results))]
