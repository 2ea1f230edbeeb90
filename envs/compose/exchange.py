"""Does each agent's function do its own steps? Each is run without the others, and helpers have stand-ins.

That a program passes tests does not say whose work it was: a helper can do everything and `main` hand it on, or
`main` do everything and only look whether it was called. So each is run where no other agent's code is.

1. Each helper that matters is called with every value that reaches its place when all do their steps. A result
   counts if it is what the helper's own steps make of the value.
2. `main_0`'s code runs beside stand-ins for all helpers. A stand-in answers every call by some value of the right
   type, as the call's arguments and a salt decide. A test passes if `main` returns what its own steps, and those
   of helpers that do not matter, make of what it was given: for that it must call stand-ins with the right values.

So each must be able to do its own steps. As a stand-in answers every call alike, and by values that hardly
depend on the task, it does not tell `main` its steps. No code leaves its author, but for the form of an
encoding.

A stand-in has its helper's name. For an encoding it answers in the helper's form: the text must be a literal
with both integers and no other digits, in one order and as Python writes them, and beside them no more than
`MAX_FORM` characters, which are the same in all tests. Between agents that know each other's steps these can
tell which ones they are. The clock is another channel: these programs run one after the other, and each can
read it.

A stand-in's answers are values of the type of the helper's results, the same for all tasks of a type of values.
The functions that run in the sandbox (`_exchange_stand_in`, `_exchange_results`) import what they use: an
agent's code next to them may give other things the names of builtins.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from llm_decpomdp.envs.compose.chains import MAX_EQUAL, run, trace
from llm_decpomdp.envs.compose.roles import EntryRole, HelperRole, entry_place
from llm_decpomdp.envs.compose.steps import INPUTS, NUMBER, PAIR, steps
from llm_decpomdp.envs.compose.tasks import ENTRY_POINT, ComposeTask
from llm_decpomdp.envs.sandbox import Program, Sandbox, instrument
from llm_decpomdp.envs.source_code.completion import Reading

ANSWERS = 64
"""Different values that a stand-in can answer, at most."""

SALTS = 50
"""Salts that are tried for one with which no test passes by chance, at most."""


def expected_results(
    task: ComposeTask,
    role: EntryRole,
    functions: Mapping[str, str],
    answers: Mapping[str, Sequence[Any]],
) -> tuple[str, list[Any]]:
    """Return a salt, and what `main` returns in each test beside stand-ins with this salt.

    Of `SALTS` it is the first with which `main` never returns the same if it does a helper's steps itself, and few
    of its results are equal; the first of all if there is none.

    Args:
        task: The task.
        role: The role of the entry function's author.
        functions: Names of the functions that stand-ins replace, by agent; other helpers' steps are done.
        answers: What each helper's stand-in can answer.
    """

    def results(salt: str, names: Mapping[str, str]) -> Iterator[Any]:
        stand_ins = {a: _exchange_stand_in(answers[a], salt + name) for a, name in names.items()}
        return (_result(task, role, stand_ins, x) for x in INPUTS[task.chain[0].source])

    mistakes = [*_leave_one_out(functions)]

    def tells_apart(salt: str) -> bool:
        right = [*results(salt, functions)]
        return max(Counter(map(repr, right)).values()) <= MAX_EQUAL and not any(
            any(a == b for a, b in zip(right, results(salt, names), strict=False))
            for names in mistakes
        )

    salts = [f"{number} " for number in range(SALTS)]
    salt = next(filter(tells_apart, salts), salts[0])
    return salt, [*results(salt, functions)]


def _leave_one_out(functions: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for agent in functions:
        yield {mate: name for mate, name in functions.items() if mate != agent}


def _result(task: ComposeTask, role: EntryRole, stand_ins: Mapping[str, Any], argument: Any) -> Any:
    """Return the result for an argument if some helpers are replaced, and all others do their steps."""
    helpers = iter(role.helpers)
    value = argument
    for position, chain in enumerate(task.shares(role.team)):
        helper = None if position == entry_place(task, role.team) else next(helpers)
        if helper is None or helper.agent not in stand_ins:
            value = run(chain, value)
        else:
            value = stand_ins[helper.agent](value)
    return value


def stand_in_answers(task: ComposeTask, helper: HelperRole) -> list[Any]:
    """Return what a helper's stand-in can answer: values that fit the steps after the helper's."""
    end = first_step(task, helper) + len(helper.share(task))
    rest = task.chain[end:]
    values = stand_in_values(task.chain[end - 1].target)
    return [value for value in values if len(trace(rest, value)) > len(rest)]


@lru_cache(maxsize=8)
def stand_in_values(kind: str) -> tuple[Any, ...]:
    """Return the values of a type that stand-ins answer, the same for all tasks; each step takes all of them."""
    if kind == PAIR:
        return tuple(itertools.permutations(INPUTS[NUMBER], 2))
    takers = [step for step in steps() if step.source == kind]
    results = (
        step.apply(value) for step in takers if step.target == kind for value in INPUTS[kind]
    )
    by_text = {
        repr(value): value
        for value in results
        if all(len(trace([step], value)) == 2 for step in takers)
    }
    texts = sorted(by_text, key=lambda text: sha256(text.encode()).digest())
    return tuple(by_text[text] for text in texts[:ANSWERS])


def first_step(task: ComposeTask, helper: HelperRole) -> int:
    """Return the number of steps before those of a helper."""
    position = helper.number + (helper.number >= entry_place(task, helper.team))
    return sum(map(len, task.shares(helper.team)[:position]))


# Parts of the programs in `exchange.py`: this code runs in the sandbox, under names that no agent writes


def _exchange_results(function: Callable[..., Any], values: Sequence[Any], mark: str) -> None:
    """Print a line with a mark, then, as JSON, the text of a function's result for each value.

    The text is empty where the function raises, or where it is too long to be that of a value of a chain. What the
    function prints is dropped.
    """
    from builtins import Exception, SystemExit, len, print, repr
    from contextlib import redirect_stdout
    from copy import deepcopy
    from io import StringIO
    from json import dumps

    def text(value: Any) -> str:
        try:
            result = repr(function(deepcopy(value)))
        except (Exception, SystemExit):
            return ""
        return result if len(result) <= 2000 else ""

    with redirect_stdout(StringIO()):
        texts = [text(value) for value in values]
    print(f"\n{mark}{dumps(texts)}", flush=True)


def _exchange_stand_in(results: Sequence[Any], salt: str) -> Callable[..., Any]:
    """Return a function that answers every call by one of some results; the call's arguments and a salt say which.

    Args:
        results: The results.
        salt: Any text; with another one other calls have other results.
    """
    from builtins import bool, dict, float, hasattr, int, isinstance, len, repr, str  # noqa: UP029
    from copy import deepcopy
    from hashlib import sha256

    def plain(value: Any) -> Any:
        if hasattr(value, "__iter__") and not isinstance(value, (str, dict)):
            return [plain(part) for part in value]
        if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
            return int(value)
        return value

    def answer(*values: Any, **named: Any) -> Any:
        texts = [repr(plain(value)) for value in (*values, *named.values())]
        digest = sha256(repr([salt, texts]).encode()).digest()
        return deepcopy(results[int.from_bytes(digest, "big") % len(results)])

    return answer


# Does each agent's function do its own steps? Each is run without the others, and helpers have stand-ins


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
class EncodingFormat:
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
    form: EncodingFormat | None = None
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
    texts = _parse_output(sandbox.run(probe, _PROBE, limits).output, len(values))
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


def _parse_output(output: str, size: int) -> list[str]:
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
        form = EncodingFormat(around, backwards)
        digits = [[*map(str, pair[::-1] if backwards else pair)] for pair in pairs]
        right = [value == digit for value, digit in zip(integers, digits, strict=False)]
        skills.append(Skill(sum(right) / len(right), form=form))
    best = max(skills, key=lambda skill: skill.share)
    try:  # is it a literal of Python?
        for pair in stand_in_values(PAIR):
            EncodingFormat(around, reversed=False).write(pair)
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
