"""Runs of each agent's function without the others' code: they show whether each agent does its own steps.

The joint program can pass its tests although one agent did all the work: a helper whose result `main` only passes
on, or a `main` that computes everything and only calls its helper. So each agent's code runs separately:

1. Each needed helper is called with the values that reach its steps in the tests. A result counts if it is that of
   the helper's own steps.
2. `main_0`'s code runs with a stub for each helper. A stub answers a call with a value of the right type, chosen
   by the call's arguments and a salt. A test passes if `main` returns the result of its own steps and the stubs'
   answers. So `main` must call the stubs with the right values.

No agent learns its steps in these runs. A stub answers any arguments, and its answers are the same for all tasks
of a type of values. No code of one agent runs with another's, with one exception: the stub for an encoding answers
in the helper's format. That format is a Python literal with both integers in a fixed order and no other digits.
The text around the integers is the same in all tests and at most `MAX_FORMAT` characters long. Agents who know
each other's steps could use it to identify these. The clock is another channel, since both programs run one after
the other.

`_compose_print_results` and `_compose_stub` run in the sandbox. They import the builtins that they use, because an
agent's code beside them may give these names other values.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from llm_decpomdp.envs.compose.chains import INPUTS, MAX_EQUAL, NUMBER, PAIR, run, steps, trace
from llm_decpomdp.envs.compose.roles import EntryRole, HelperRole
from llm_decpomdp.envs.compose.tasks import ENTRY_POINT, ComposeTask
from llm_decpomdp.envs.sandbox import Program, Sandbox, instrument
from llm_decpomdp.envs.source_code.completion import Reading

ANSWERS = 64
"""Maximum number of different answers of a stub."""

SALTS = 50
"""Maximum number of salts that are tried."""

AUTHOR = "_compose_check"
"""Author of the code that is no agent's, and name of its entry point. No agent writes such a name by chance."""

MARK = "results: "

OUTPUT_BYTES = 2**16
"""Maximum size of a helper's printed results."""

SECONDS = 2.0
"""Maximum processor time for a helper's results. Steps are small."""

MAX_FORMAT = 40
"""Maximum number of characters of an encoding, not counting its integers."""

INTEGER = re.compile(r"(?<![0-9])-?[0-9]+")


@dataclass(frozen=True)
class EncodingFormat:
    """The format in which a helper writes two integers."""

    around: tuple[str, ...]
    """The text before, between and after them."""
    reversed: bool

    def write(self, pair: Sequence[int]) -> Any:
        """Return the encoding of two integers."""
        first, second = pair[::-1] if self.reversed else pair
        before, between, after = self.around
        return ast.literal_eval(f"{before}{first}{between}{second}{after}")


@dataclass(frozen=True)
class HelperResult:
    """The results of a helper's function without the other agents' code."""

    share: float
    """Share of the tests' values for which it returns the result of its steps."""
    format: EncodingFormat | None = None
    """Its format of an encoding."""


def separate_shares(
    sandbox: Sandbox,
    task: ComposeTask,
    role: EntryRole,
    parts: Mapping[str, Reading],
    functions: Mapping[str, str],
    needed: Collection[str],
) -> dict[str, float]:
    """Return for each helper in `needed` the share of tests in which it and `main` do their own steps.

    All shares are 0 if one of these helpers never does its steps, because `main` then has no valid input.

    Args:
        sandbox: Where the programs run.
        task: The task.
        role: The role of the entry function's author.
        parts: The code of each agent that has some.
        functions: Name of the function of each helper that has one, by agent.
        needed: Helpers on whose results a test depends.
    """
    helpers = {
        helper.agent: _run_helper(
            sandbox, task, helper, functions[helper.agent], parts[helper.agent].code
        )
        for helper in role.helpers
        if helper.agent in needed
    }
    if not all(result.share for result in helpers.values()):
        return dict.fromkeys(helpers, 0.0)
    share = _run_entry(sandbox, task, role, parts[role.agent].code, functions, helpers)
    return {agent: min(share, result.share) for agent, result in helpers.items()}


def _run_helper(
    sandbox: Sandbox, task: ComposeTask, helper: HelperRole, name: str, code: str
) -> HelperResult:
    earlier = task.chain[: _first_step(task, helper)]
    values = [run(earlier, argument) for argument in INPUTS[task.chain[0].source]]
    call = f"def {AUTHOR}():\n    _compose_print_results({name}, {values!r}, {MARK!r})\n"
    program = Program(
        ((helper.agent, code), (AUTHOR, _source(_compose_print_results) + call)), AUTHOR
    )
    seconds = min(SECONDS, sandbox.limits.test_seconds)
    limits = replace(sandbox.limits, output_bytes=OUTPUT_BYTES, test_seconds=seconds)
    texts = _parse_output(sandbox.run(program, _CALL_ONCE, limits).output, len(values))
    targets = [run(helper.share(task), value) for value in values]
    if helper.convention == "encoding":
        return _encoding_result(texts, targets)
    right = [text == repr(value) for text, value in zip(texts, targets, strict=True)]
    return HelperResult(sum(right) / len(right))


_CALL_ONCE = instrument("def check(candidate):\n    assert candidate() is None\n", AUTHOR)


def _first_step(task: ComposeTask, helper: HelperRole) -> int:
    return sum(map(len, task.shares(helper.team)[: helper.position(task)]))


def _parse_output(output: str, size: int) -> list[str]:
    """Read the output of `_compose_print_results`. The program may have printed anything instead."""
    # The last mark: the agent's code may have printed others before.
    line = output.rpartition(f"\n{MARK}")[2].partition("\n")[0]
    try:
        texts = json.loads(line)
    except (ValueError, RecursionError):
        texts = None
    if isinstance(texts, list) and len(texts) == size and all(isinstance(t, str) for t in texts):
        return texts
    return [""] * size


def _encoding_result(texts: Sequence[str], pairs: Sequence[Sequence[int]]) -> HelperResult:
    """Return the result of a helper that has written these texts for these pairs."""
    formats = {tuple(INTEGER.split(text)) for text in texts if text}
    if len(formats) != 1:
        return HelperResult(0.0)
    around = formats.pop()
    if len(around) != 3 or sum(map(len, around)) > MAX_FORMAT:
        return HelperResult(0.0)
    integers = [INTEGER.findall(text) for text in texts]
    results = []
    for backwards in (False, True):
        digits = [[*map(str, pair[::-1] if backwards else pair)] for pair in pairs]
        right = [value == digit for value, digit in zip(integers, digits, strict=False)]
        results.append(HelperResult(sum(right) / len(right), EncodingFormat(around, backwards)))
    try:  # A stub must be able to answer in this format, so it has to be a literal of Python.
        for pair in stub_values(PAIR):
            EncodingFormat(around, reversed=False).write(pair)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return HelperResult(0.0)
    return max(results, key=lambda result: result.share)


def _run_entry(
    sandbox: Sandbox,
    task: ComposeTask,
    role: EntryRole,
    code: str,
    functions: Mapping[str, str],
    helpers: Mapping[str, HelperResult],
) -> float:
    """Return the share of tests that `main` passes with stubs for all helpers."""
    answers = {helper.agent: _stub_answers(task, helper) for helper in role.helpers}
    names = {agent: functions[agent] for agent in helpers}
    salt, targets = _expected_results(task, role, names, answers)
    lines = [_source(_compose_stub)]
    for agent, name in functions.items():
        results, form = answers[agent], helpers[agent].format if agent in helpers else None
        if form is not None:
            results = [form.write(pair) for pair in results]
        # The name in the salt makes the stubs of several helpers differ.
        lines.append(f"{name} = _compose_stub({results!r}, {salt + name!r})\n")
    tests = ["def check(candidate):\n"]
    for argument, result in zip(INPUTS[task.chain[0].source], targets, strict=True):
        tests.append(f"    assert candidate({argument!r}) == {result!r}\n")
    program = Program(((AUTHOR, "".join(lines)), (role.agent, code)), ENTRY_POINT)
    outcomes = sandbox.run(program, instrument("".join(tests), ENTRY_POINT)).tests
    return sum(outcome.passed for outcome in outcomes) / len(outcomes)


def _expected_results(
    task: ComposeTask,
    role: EntryRole,
    functions: Mapping[str, str],
    answers: Mapping[str, Sequence[Any]],
) -> tuple[str, list[Any]]:
    """Choose a salt; return it with the expected result of `main` in each test.

    The choice is the first salt with which no test passes if `main` does a helper's steps itself, and at most
    `MAX_EQUAL` results are equal. If none of `SALTS` has this property, it is the first salt.

    Args:
        task: The task.
        role: The role of the entry function's author.
        functions: Names of the functions that stubs replace, by agent; the steps of other helpers are done.
        answers: Possible answers of each helper's stub.
    """

    def result(stubs: Mapping[str, Any], value: Any) -> Any:
        for author, chain in role.authors(task):
            stub = None if author is None else stubs.get(author.agent)
            value = run(chain, value) if stub is None else stub(value)
        return value

    def results(salt: str, left_out: str | None = None) -> list[Any]:
        names = {agent: name for agent, name in functions.items() if agent != left_out}
        stubs = {agent: _compose_stub(answers[agent], salt + name) for agent, name in names.items()}
        return [result(stubs, argument) for argument in INPUTS[task.chain[0].source]]

    def detects_mistakes(salt: str) -> bool:
        right = results(salt)
        return max(Counter(map(repr, right)).values()) <= MAX_EQUAL and not any(
            a == b for agent in functions for a, b in zip(right, results(salt, agent), strict=True)
        )

    salts = [f"{number} " for number in range(SALTS)]
    salt = next(filter(detects_mistakes, salts), salts[0])
    return salt, results(salt)


def _stub_answers(task: ComposeTask, helper: HelperRole) -> list[Any]:
    """Return the possible answers of a helper's stub: values that the later steps can process."""
    end = _first_step(task, helper) + len(helper.share(task))
    rest = task.chain[end:]
    values = stub_values(task.chain[end - 1].target)
    return [value for value in values if len(trace(rest, value)) > len(rest)]


@lru_cache(maxsize=8)
def stub_values(kind: str) -> tuple[Any, ...]:
    """Return the values of a type that stubs answer, the same for all tasks; each step accepts all of them."""
    if kind == PAIR:
        return tuple(itertools.permutations(INPUTS[NUMBER], 2))
    takers = [step for step in steps() if step.source == kind]
    results = [
        step.apply(value) for step in takers if step.target == kind for value in INPUTS[kind]
    ]
    by_text = {
        repr(value): value
        for value in results
        if all(len(trace([step], value)) == 2 for step in takers)
    }
    # In the order of hashes: a sample of all values, equal in every process.
    texts = sorted(by_text, key=lambda text: sha256(text.encode()).digest())
    return tuple(by_text[text] for text in texts[:ANSWERS])


# The rest of this module runs in the sandbox.


def _source(function: Any) -> str:
    return f"from __future__ import annotations\n{inspect.getsource(function)}\n"


def _compose_print_results(function: Callable[..., Any], values: Sequence[Any], mark: str) -> None:
    """Print a line with a mark and, as JSON, the text of a function's result for each value.

    The text is empty if the function raises, or if it is too long for a value of a chain. The function's own
    output is dropped.
    """
    from builtins import Exception, SystemExit, len, print, repr
    from contextlib import redirect_stdout
    from copy import deepcopy
    from io import StringIO
    from json import dumps

    def text(value: Any) -> str:
        try:
            # A copy, since the function may change its argument.
            result = repr(function(deepcopy(value)))
        # An agent's function may call `sys.exit`.
        except (Exception, SystemExit):
            return ""
        return result if len(result) <= 2000 else ""

    with redirect_stdout(StringIO()):
        texts = [text(value) for value in values]
    print(f"\n{mark}{dumps(texts)}", flush=True)


def _compose_stub(results: Sequence[Any], salt: str) -> Callable[..., Any]:
    """Return a function that answers calls with `results`, chosen by the call's arguments and a salt."""
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
