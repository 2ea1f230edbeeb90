"""Quality of the bundled problems, in Markdown: `python -m tools.quality.problems`.

The mutation score of the tests of a problem is the share of the mutants of its reference that fail a test, do not
load or do not end in time. Mutants that are equivalent to the reference do not count; `equivalent_mutants.json`
lists them with the reasons. `--survivors` prints the other mutants that pass all tests.
"""

from __future__ import annotations

import argparse
import ast
import doctest
import json
import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import combinations, starmap
from pathlib import Path
from typing import Any

from llm_decpomdp.envs.bugfix.programs import ProgramSource, bundled_sources
from llm_decpomdp.envs.bugfix.tasks import test_cases_of_program
from llm_decpomdp.envs.datasets.mbpp import MBPP, mbpp_task
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.envs.source_code.functions import tokens
from llm_decpomdp.envs.source_code.mutation import KINDS, Mutant, mutants

EQUIVALENT: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("equivalent_mutants.json").read_text(encoding="utf-8")
)
"""Reasons of equivalent mutants, by the name of the problem and the key of the mutation."""

GOAL = 0.9
"""Required mutation score of each problem."""

SAME_WORDS = 0.6
"""Texts with a larger share of common words are near-duplicates."""

SAME_CODE = 0.9
"""References with a larger share of common tokens, without names, are near-duplicates."""


@dataclass(frozen=True)
class Quality:
    """Measures of one problem."""

    source: ProgramSource
    tests: int
    examples: int
    """Number of examples in the text of the problem."""
    agreeing: int
    """Number of examples that agree with the reference."""
    survivors: tuple[Mutant, ...]
    """Mutants that pass all tests and are not known to be equivalent."""
    killed: tuple[Mutant, ...]
    equivalent: tuple[Mutant, ...]

    @property
    def score(self) -> float:
        """Share of mutants that the tests find."""
        total = len(self.killed) + len(self.survivors)
        return len(self.killed) / total if total else 1.0


def ours() -> list[ProgramSource]:
    """Return the bundled problems without those of HumanEval."""
    bundled = [source for source in bundled_sources() if not source.name.startswith("HumanEval/")]
    return [*bundled, *starmap(_mbpp_problem, enumerate(MBPP.bundled()))]


def _mbpp_problem(index: int, row: Row) -> ProgramSource:
    task = mbpp_task(index, row)
    code = task.references["main_0"]
    return ProgramSource(f"MBPP-like/{index}", task.prompt, code, task.entry_point, task.test)


def quality(source: ProgramSource, sandbox: Sandbox) -> Quality:
    """Run the mutants of the reference of a problem, and the examples of its text.

    Raises:
        ValueError: If the reference or an equivalent mutant fails a test, or the mutant does not exist.
    """
    tests = len(test_cases_of_program(source.code, source.test, source.entry_point).cases)
    if not _passes(source, sandbox, [source.code])[0]:
        raise ValueError(f"the reference of {source.name} fails its tests")
    variants = mutants(source.code)
    passes = _passes(source, sandbox, [mutant.source for mutant in variants])
    alive = {mutant for mutant, passed in zip(variants, passes, strict=True) if passed}
    equivalent = EQUIVALENT.get(source.name, {})
    if wrong := set(equivalent) - {mutant.key for mutant in alive}:
        raise ValueError(f"{source.name}: no such mutants, or a test finds them: {sorted(wrong)}")
    examples, agreeing = _examples(source)
    return Quality(
        source,
        tests,
        examples,
        agreeing,
        tuple(m for m in variants if m in alive and m.key not in equivalent),
        tuple(m for m in variants if m not in alive),
        tuple(m for m in variants if m in alive and m.key in equivalent),
    )


def _passes(source: ProgramSource, sandbox: Sandbox, codes: Sequence[str]) -> list[bool]:
    return [
        execution.error is None and all(test.passed for test in execution.tests)
        for execution in source.run(sandbox, codes)
    ]


def _examples(source: ProgramSource) -> tuple[int, int]:
    """Return the numbers of examples in the texts of a problem, and of those that agree with its reference."""
    names: dict[str, Any] = {}
    exec(source.code, names)
    texts = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(f"{source.statement}\n    pass\n"))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    runner = doctest.DocTestRunner(verbose=False)
    for text in texts:
        test = doctest.DocTestParser().get_doctest(text, dict(names), source.name, None, None)
        runner.run(test, out=lambda _: None)
    return runner.tries, runner.tries - runner.failures


# Near-duplicates


def near_duplicates(
    sources: Sequence[ProgramSource],
) -> Iterator[tuple[ProgramSource, ProgramSource, float, float]]:
    """Yield pairs of problems with similar words or code, and the common shares of both."""
    words = [_words(source.statement) for source in sources]
    codes = [_anonymous(source.code) for source in sources]
    for i, j in combinations(range(len(sources)), 2):
        text = len(words[i] & words[j]) / len(words[i] | words[j])
        # autojunk would ignore the frequent tokens of long programs.
        matcher = SequenceMatcher(None, codes[i], codes[j], autojunk=False)
        # Both are upper bounds of the slow ratio.
        likely = matcher.real_quick_ratio() >= SAME_CODE and matcher.quick_ratio() >= SAME_CODE
        code = matcher.ratio() if likely else 0.0
        if text >= SAME_WORDS or code >= SAME_CODE:
            yield sources[i], sources[j], text, code


def _words(statement: str) -> set[str]:
    return set(re.findall(r"[a-z]+", statement.partition(">>>")[0].lower()))


def _anonymous(code: str) -> list[str]:
    """Return the tokens of a reference, with one token for all names."""
    return [
        "name" if token.isidentifier() and not keyword.iskeyword(token) else token
        for token in tokens(code)
    ]


# Tables


def report(qualities: Sequence[Quality], survivors: bool) -> Iterator[str]:
    """Yield the lines of the report."""
    yield "| problem | function | tests | examples that agree | mutants | equivalent | found | score |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in qualities:
        total = len(row.killed) + len(row.survivors) + len(row.equivalent)
        yield (
            f"| {row.source.name} | `{row.source.entry_point}` | {row.tests} | {row.agreeing}/{row.examples} "
            f"| {total} | {len(row.equivalent)} | {len(row.killed)} | {row.score:.0%} |"
        )
    yield from ("", "| kind | mutants | equivalent | found | score |", "|---|---|---|---|---|")
    for kind in (*KINDS, "all"):
        groups = [(q.killed, q.survivors, q.equivalent) for q in qualities]
        killed, alive, same = (
            sum(mutant.kind == kind or kind == "all" for group in groups for mutant in group[place])
            for place in range(3)
        )
        score = killed / max(killed + alive, 1)
        yield f"| {kind} | {killed + alive + same} | {same} | {killed} | {score:.0%} |"
    weak = [row.source.name for row in qualities if row.score < GOAL]
    yield f"\nBelow {GOAL:.0%}: {', '.join(weak) or 'none'}."
    pairs = list(near_duplicates([row.source for row in qualities]))
    yield f"Near-duplicates: {len(pairs) or 'none'}."
    for first, second, text, code in pairs:
        yield f"- {first.name} and {second.name}: words {text:.0%}, code {code:.0%}"
    if survivors:
        yield from _survivors(qualities)


def _survivors(qualities: Sequence[Quality]) -> Iterator[str]:
    for row in qualities:
        for mutant in row.survivors:
            before, after = row.source.code.splitlines(), mutant.source.splitlines()
            changes = list(unified_diff(before, after, n=0, lineterm=""))[3:]
            yield "\n".join([f"\n{row.source.name} {mutant.key}", *changes])


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--survivors", action="store_true", help="print the mutants that pass all tests"
    )
    parser.add_argument("names", nargs="*", help="problems, such as Bundled/17; default all")
    arguments = parser.parse_args()
    sandbox = Sandbox()
    sources = [s for s in ours() if not arguments.names or s.name in arguments.names]
    qualities = [quality(source, sandbox) for source in sources]
    print("\n".join(report(qualities, arguments.survivors)))


if __name__ == "__main__":
    main()
