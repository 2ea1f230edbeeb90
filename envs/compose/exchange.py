"""Does each agent's function do its own steps? Each is run without the others, and with exchanged results.

That a program passes tests does not say whose work it was: a helper can do everything and `main` hand it on, or
`main` do everything and only look whether it was called. So each is run where no other agent's code is.

1. Each helper is called with every value that reaches its place when all do their steps. A result counts if it is
   what the helper's own steps make of the value.
2. `main_0`'s code runs with tables in the place of helpers. They answer the calls whose results counted; any other
   call is an error. For one helper at a time the table gives the results of other tests. Then a test passes if
   `main` returns what its own steps, and those of the other helpers, make of what it was given.

So each must be able to do its own steps, and `main` to do them with values that only its helper can explain. No
code leaves its author: of the parameters' names `main` is told those that it uses itself, calls stand in a table
in an order that tells nothing of the tests, and an encoding has at most `MAX_FORM` characters beside its integers.
That keeps a helper from handing over `main`'s steps as text, and cannot keep it from a few bits.

Conventions stay as they are: a table has its helper's name, takes the orders of arguments that the helper takes,
and gives what it gives. Under the other names that a helper could have, tables give wrong results: an entry
function that takes whatever name there is has agreed on none. The text of an encoding must have both integers and
no other digits, in one order and as Python writes them, and nothing else in it may differ between tests.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from llm_decpomdp.envs.compose.chains import MAX_EQUAL, Chain, run
from llm_decpomdp.envs.compose.roles import EntryRole, HelperRole, entry_place
from llm_decpomdp.envs.compose.steps import INPUTS
from llm_decpomdp.envs.compose.tables import _exchange_results, _exchange_table
from llm_decpomdp.envs.compose.tasks import ENTRY_POINT, ComposeTask
from llm_decpomdp.envs.programs.completion import Reading, parsed
from llm_decpomdp.envs.sandbox import Program, Sandbox, instrument

EXCHANGE = "_exchange"
"""Author of what is neither agent's code, and name of its entry point."""

MARK = "results: "

OUTPUT_BYTES = 2**16
"""Room for what a helper prints, and then its results."""

SECONDS = 2.0
"""Processor time for the results of a helper, at most: steps are small."""

MAX_FORM = 40
"""Characters of an encoding, beside its integers."""

INTEGER = re.compile(r"(?<![0-9])-?[0-9]+")


@dataclass(frozen=True)
class Skill:
    """What a helper is able to do alone."""

    helper: HelperRole
    name: str
    """Name of its function."""
    parameters: list[str]
    """Names of the parameters that may be given by name."""
    rows: list[list[tuple[str, str]]]
    """For each order of arguments the call of each test, as code, and its result; empty where that is wrong."""


def exchange_shares(
    sandbox: Sandbox,
    task: ComposeTask,
    role: EntryRole,
    parts: Mapping[str, Reading],
    functions: Mapping[str, str],
) -> list[float]:
    """Return for each helper the share of tests in which `main` and the helpers do their own steps.

    Args:
        sandbox: Where the programs run.
        task: The task.
        role: The role of the entry function's author.
        parts: The code of each agent that has some.
        functions: Name of each helper's function, by agent.
    """
    helpers = [helper for helper in role.helpers if helper.agent in functions]
    skills = [_find(sandbox, task, h, functions[h.agent], parts[h.agent].code) for h in helpers]
    code = parts[role.agent].code
    return [
        _share(sandbox, task, skills, target, code, role.agent) for target in range(len(skills))
    ]


def _find(sandbox: Sandbox, task: ComposeTask, helper: HelperRole, name: str, code: str) -> Skill:
    """Call a helper's function alone, with every value that reaches its place, in a program for each order."""
    seconds = min(SECONDS, sandbox.limits.test_seconds)
    limits = replace(sandbox.limits, output_bytes=OUTPUT_BYTES, test_seconds=seconds)
    calls = _calls(task, helper)
    jobs = [(_probe(helper.agent, name, code, row), _PROBE) for row in calls]
    outputs = [
        _printed(execution.output, len(row))
        for execution, row in zip(sandbox.run_batch(jobs, limits), calls, strict=True)
    ]
    chain = _stretch(task, helper)[1]
    answers = [run(chain, value) for value in _values(task, helper)]
    check = _shows if helper.convention == "encoding" else _equals
    rows = [
        [
            (call, text if right else "")
            for call, text, right in zip(row, texts, check(texts, answers), strict=True)
        ]
        for row, (_, texts) in zip(calls, outputs, strict=True)
    ]
    arity = 2 if helper.convention == "order" else 1
    return Skill(helper, name, max((names for names, _ in outputs), key=len)[:arity], rows)


def _probe(agent: str, name: str, code: str, calls: Sequence[str]) -> Program:
    """Return a program that prints a function's results of some calls."""
    lines = f"def {EXCHANGE}():\n    _exchange_results({name}, [{', '.join(calls)}], {MARK!r})\n"
    return Program(((agent, code), (EXCHANGE, _source(_exchange_results) + lines)), EXCHANGE)


_PROBE = instrument("def check(candidate):\n    assert candidate() is None\n", EXCHANGE)


def _printed(output: str, size: int) -> tuple[list[str], list[str]]:
    """Read what `_exchange_results` has printed: as it comes from the program, it may be anything."""
    line = output.rpartition(f"\n{MARK}")[2].partition("\n")[0]
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    match content:
        case [list(parameters), list(texts)] if len(texts) == size:
            if all(isinstance(text, str) for text in (*parameters, *texts)):
                return parameters, texts
    return [], [""] * size


def _equals(texts: Sequence[str], answers: Sequence[Any]) -> list[bool]:
    """Check of each text whether it is what Python writes for an answer."""
    return [text == repr(answer) for text, answer in zip(texts, answers, strict=True)]


def _shows(texts: Sequence[str], pairs: Sequence[Sequence[int]]) -> list[bool]:
    """Check of each text whether it shows the two integers of a pair, and beside them what all texts share."""
    forms = {INTEGER.sub("#", text) for text in texts if text}
    integers = [INTEGER.findall(text) for text in texts]
    orders = (
        [
            numbers == [str(number) for number in order(pair)]
            for numbers, pair in zip(integers, pairs, strict=True)
        ]
        for order in (list, lambda pair: [*reversed(pair)])
    )
    fits = len(forms) == 1 and len(forms.pop()) <= MAX_FORM
    return max(orders, key=sum) if fits else [False] * len(texts)


def _share(
    sandbox: Sandbox,
    task: ComposeTask,
    skills: Sequence[Skill],
    target: int,
    code: str,
    author: str,
) -> float:
    """Return the share of tests that `main` passes with tables, of which the target's has exchanged results."""
    permutation = _permutation(task)
    lines, keywords = [_source(_exchange_table)], _keywords(code)
    for number, skill in enumerate(skills):
        for name in skill.helper.names:
            shifts = (number == target) + (name != skill.name)
            parameters = [p if p in keywords else "" for p in skill.parameters]
            rows = _rows(skill, permutation, shifts)
            lines.append(f"{name} = _exchange_table({parameters!r}, [{rows}])\n")
    helper = skills[target].helper
    values, (before, chain) = _values(task, helper), _stretch(task, helper)
    tests = ["def check(candidate):\n"]
    for argument, value in zip(INPUTS[task.chain[0].source], values, strict=True):
        result = run(chain, values[permutation[values.index(value)]])
        answer = run(task.chain[before + len(chain) :], result)
        tests.append(f"    assert candidate({argument!r}) == {answer!r}\n")
    program = Program(((EXCHANGE, "".join(lines)), (author, code)), ENTRY_POINT)
    outcomes = sandbox.run(program, instrument("".join(tests), ENTRY_POINT)).tests
    return sum(outcome.passed for outcome in outcomes) / len(outcomes)


def _rows(skill: Skill, permutation: Sequence[int], shifts: int) -> str:
    """Return the rows of a table as code; each call has the result of another test, so many times another."""
    pairs: dict[str, str] = {}
    for row in skill.rows:
        for test, (call, _) in enumerate(row):
            for _ in range(shifts):
                test = permutation[test]
            pairs.setdefault(call, row[test][1])
    calls = sorted(pairs, key=lambda call: sha256(call.encode()).digest())
    return ", ".join(f"({call}, {pairs[call]!r})" for call in calls)


def _keywords(code: str) -> set[str | None]:
    """Return the names by which code gives arguments."""
    tree = parsed(code)
    return {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)} if tree else set()


def _source(function: Any) -> str:
    return f"from __future__ import annotations\n{inspect.getsource(function)}\n"


def _stretch(task: ComposeTask, helper: HelperRole) -> tuple[int, Chain]:
    """Return the number of steps before those of a helper, and these."""
    shares = task.shares(helper.team)
    position = helper.number + (helper.number >= entry_place(task, helper.team))
    return sum(map(len, shares[:position])), shares[position]


def _values(task: ComposeTask, helper: HelperRole) -> list[Any]:
    """Return the value that a helper's steps begin with, for each test."""
    earlier = task.chain[: _stretch(task, helper)[0]]
    return [run(earlier, argument) for argument in INPUTS[task.chain[0].source]]


def _calls(task: ComposeTask, helper: HelperRole) -> list[list[str]]:
    """Return the calls with these values, in Python; for `order` those of the other order, too."""
    values = [repr(value) for value in _values(task, helper)]
    if helper.convention != "order":
        return [[f"({value},)" for value in values]]
    constant = helper.share(task)[0].constant
    return [[f"({v}, {constant})" for v in values], [f"({constant}, {v})" for v in values]]


def _permutation(task: ComposeTask) -> list[int]:
    """Return for each test another one, with another result.

    By the order of results it comes `MAX_EQUAL` places later, so that it is none of those with an equal result.
    """
    texts = [repr(run(task.chain, argument)) for argument in INPUTS[task.chain[0].source]]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    successors = order[MAX_EQUAL:] + order[:MAX_EQUAL]
    return [successors[order.index(test)] for test in range(len(texts))]
