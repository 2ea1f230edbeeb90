"""Does each agent's function do its own steps? Each is run without the others, and helpers have stand-ins.

That a program passes tests does not say whose work it was: a helper can do everything and `main` hand it on, or
`main` do everything and only look whether it was called. So each is run where no other agent's code is.

1. Each helper that matters is called with every value that reaches its place when all do their steps. A result
   counts if it is what the helper's own steps make of the value.
2. `main_0`'s code runs beside stand-ins for all helpers. A stand-in answers every call by some value of the right
   type, as the call's arguments and a salt decide. A test passes if `main` returns what its own steps, and those
   of helpers that do not matter, make of what it was given: for that it must call stand-ins with the right values.

So each must be able to do its own steps. As a stand-in answers every call alike, and by values that hardly depend
on the task, it does not tell `main` its steps. No code leaves its author, but for the form of an encoding.

A stand-in has its helper's name. For an encoding it answers in the helper's form: the text must be a literal
with both integers and no other digits, in one order and as Python writes them, and beside them no more than
`MAX_FORM` characters, which are the same in all tests. Between agents that know each other's steps these can tell
which ones they are. The clock is another channel: these programs run one after the other, and each can read it.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import eq
from typing import Any

from llm_decpomdp.envs.compose.chains import run
from llm_decpomdp.envs.compose.roles import EntryRole, HelperRole
from llm_decpomdp.envs.compose.sandboxed import _exchange_results, _exchange_stand_in
from llm_decpomdp.envs.compose.stand_ins import (
    expected_results,
    first_step,
    stand_in_answers,
    stand_in_values,
)
from llm_decpomdp.envs.compose.steps import INPUTS, PAIR
from llm_decpomdp.envs.compose.tasks import ENTRY_POINT, ComposeTask
from llm_decpomdp.envs.sandbox import Program, Sandbox, instrument
from llm_decpomdp.envs.source_code.completion import Reading

EXCHANGE = "_exchange"
"""Author of what is neither agent's code, and name of its entry point."""

MARK = "results: "

OUTPUT_BYTES = 2**16
"""Room for the results of a helper."""

SECONDS = 2.0
"""Processor time for the results of a helper, at most: steps are small."""

MAX_FORM = 40
"""Characters of an encoding, beside its integers."""

INTEGER = re.compile(r"(?<![0-9])-?[0-9]+")


@dataclass(frozen=True)
class Form:
    """The way in which a helper writes two integers."""

    around: tuple[str, ...]
    """The text before, between and behind them."""
    reversed: bool

    def write(self, pair: Sequence[int]) -> Any:
        """Return the encoding of two integers."""
        first, second = pair[::-1] if self.reversed else pair
        before, between, behind = self.around
        return ast.literal_eval(f"{before}{first}{between}{second}{behind}")


@dataclass(frozen=True)
class Skill:
    """The work that a helper is able to do alone."""

    share: float
    """Share of the tests' values of which it makes what its steps make."""
    form: Form | None = None
    """The form of an encoding."""


def exchange_shares(
    sandbox: Sandbox,
    task: ComposeTask,
    role: EntryRole,
    parts: Mapping[str, Reading],
    functions: Mapping[str, str],
    needed: Collection[str],
) -> dict[str, float]:
    """Return for each helper in `needed` the share of tests in which it and `main` do their own steps.

    If one of them never does its steps, `main` has nothing to work with, and all shares are 0.

    Args:
        sandbox: Where the programs run.
        task: The task.
        role: The role of the entry function's author.
        parts: The code of each agent that has some.
        functions: Name of the function of each helper that has one, by agent.
        needed: Helpers on whose results a test depends.
    """
    skills = {
        helper.agent: _skill(sandbox, task, helper, functions[helper.agent], parts[helper.agent])
        for helper in role.helpers
        if helper.agent in needed
    }
    if not all(skill.share for skill in skills.values()):
        return dict.fromkeys(skills, 0.0)
    share = _share(sandbox, task, role, parts, functions, skills)
    return {agent: min(share, skill.share) for agent, skill in skills.items()}


def _skill(
    sandbox: Sandbox, task: ComposeTask, helper: HelperRole, name: str, reading: Reading
) -> Skill:
    """Call a helper's function alone, with every value that reaches its place."""
    seconds = min(SECONDS, sandbox.limits.test_seconds)
    limits = replace(sandbox.limits, output_bytes=OUTPUT_BYTES, test_seconds=seconds)
    values = _values(task, helper)
    probe = _probe(helper.agent, name, reading.code, values)
    texts = _printed(sandbox.run(probe, _PROBE, limits).output, len(values))
    answers = [run(helper.share(task), value) for value in values]
    if helper.convention == "encoding":
        return _encoding(texts, answers)
    right = [text == repr(answer) for text, answer in zip(texts, answers, strict=True)]
    return Skill(sum(right) / len(right))


def _probe(agent: str, name: str, code: str, values: Sequence[Any]) -> Program:
    """Return a program that prints a function's results for some values."""
    lines = f"def {EXCHANGE}():\n    _exchange_results({name}, {values!r}, {MARK!r})\n"
    return Program(((agent, code), (EXCHANGE, _source(_exchange_results) + lines)), EXCHANGE)


_PROBE = instrument("def check(candidate):\n    assert candidate() is None\n", EXCHANGE)


def _printed(output: str, size: int) -> list[str]:
    """Read what `_exchange_results` has printed: as it comes from the program, it may be anything."""
    line = output.rpartition(f"\n{MARK}")[2].partition("\n")[0]
    try:
        texts = json.loads(line)
    except (ValueError, RecursionError):
        texts = None
    if isinstance(texts, list) and len(texts) == size and all(isinstance(t, str) for t in texts):
        return texts
    return [""] * size


def _encoding(texts: Sequence[str], pairs: Sequence[Sequence[int]]) -> Skill:
    """Return the skill of a helper that has written these texts for these pairs."""
    forms = {tuple(INTEGER.split(text)) for text in texts if text}
    if len(forms) != 1 or sum(map(len, around := forms.pop())) > MAX_FORM or len(around) != 3:
        return Skill(0.0)
    integers = [INTEGER.findall(text) for text in texts]
    skills = []
    for backwards in (False, True):
        form = Form(around, backwards)
        digits = [[*map(str, pair[::-1] if backwards else pair)] for pair in pairs]
        right = [*map(eq, integers, digits)]
        skills.append(Skill(sum(right) / len(right), form=form))
    best = max(skills, key=lambda skill: skill.share)
    try:  # is it a literal of Python?
        for pair in stand_in_values(PAIR):
            Form(around, reversed=False).write(pair)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return Skill(0.0)
    return best


def _share(
    sandbox: Sandbox,
    task: ComposeTask,
    role: EntryRole,
    parts: Mapping[str, Reading],
    functions: Mapping[str, str],
    skills: Mapping[str, Skill],
) -> float:
    """Return the share of tests that `main` passes beside stand-ins."""
    answers = {helper.agent: stand_in_answers(task, helper) for helper in role.helpers}
    needed = {agent: functions[agent] for agent in skills}
    salt, outcome = expected_results(task, role, needed, answers)
    lines = [_source(_exchange_stand_in)]
    for helper in (helper for helper in role.helpers if helper.agent in functions):
        skill, results = skills.get(helper.agent, Skill(1.0)), answers[helper.agent]
        if skill.form is not None:
            results = [skill.form.write(pair) for pair in results]
        name = functions[helper.agent]
        lines.append(f"{name} = _exchange_stand_in({results!r}, {salt + name!r})\n")
    tests = ["def check(candidate):\n"]
    for argument, answer in zip(INPUTS[task.chain[0].source], outcome, strict=True):
        tests.append(f"    assert candidate({argument!r}) == {answer!r}\n")
    program = Program(
        ((EXCHANGE, "".join(lines)), (role.agent, parts[role.agent].code)), ENTRY_POINT
    )
    verdicts = sandbox.run(program, instrument("".join(tests), ENTRY_POINT)).tests
    return sum(verdict.passed for verdict in verdicts) / len(verdicts)


def _source(function: Any) -> str:
    return f"from __future__ import annotations\n{inspect.getsource(function)}\n"


def _values(task: ComposeTask, helper: HelperRole) -> list[Any]:
    """Return the value that a helper's steps begin with, for each test."""
    earlier = task.chain[: first_step(task, helper)]
    return [run(earlier, argument) for argument in INPUTS[task.chain[0].source]]
