"""The tasks of `humanevalfix-v0`: HumanEvalFix, a part of HumanEvalPack, and what stands in for it."""

from __future__ import annotations

import ast
from functools import lru_cache

from llm_decpomdp.envs.bugfix.programs import bundled_faults, bundled_sources
from llm_decpomdp.envs.bugfix.tasks import BugTask, bug_task, test_cases_of_program
from llm_decpomdp.envs.datasets.humaneval import MAX_PROMPT_LENGTH
from llm_decpomdp.envs.datasets.loading import Dataset
from llm_decpomdp.envs.datasets.rows import BadRow, Row, text_field
from llm_decpomdp.envs.source_code.functions import (
    functions,
    header_and_docstring,
    remove_docstring,
)
from llm_decpomdp.envs.source_code.parsing import find_function
from llm_decpomdp.seeding import stream


def humanevalfix_task(index: int, row: Row) -> BugTask:
    """Make a task of a row of HumanEvalFix, the bug-fixing part of HumanEvalPack.

    Fields: `task_id`, `prompt` (header and docstring), `declaration` (header, with the imports and helpers
    before it), `canonical_solution` and `buggy_solution` (bodies), `bug_type`, `entry_point`, `test`.

    Raises:
        BadRow: If a field is missing, empty or unusable.
    """
    entry_point, test = text_field(row, "entry_point"), text_field(row, "test")
    declaration = text_field(row, "declaration")
    correct = declaration + text_field(row, "canonical_solution")
    buggy = declaration + text_field(row, "buggy_solution")
    prompt = text_field(row, "prompt")
    if len(prompt) + len(buggy) > MAX_PROMPT_LENGTH:
        raise BadRow(f"'prompt' and program have more than {MAX_PROMPT_LENGTH} characters")
    for name, code in (("canonical_solution", correct), ("buggy_solution", buggy)):
        if entry_point not in functions(code):
            raise BadRow(f"fields 'declaration' and {name!r} do not define {entry_point!r}")
    if not test_cases_of_program(correct, test, entry_point).cases:
        raise BadRow(f"field 'test' holds no assert about {entry_point!r}")
    stated = header_and_docstring(f"{prompt.rstrip()}\n    pass\n", entry_point)
    task_id = text_field(row, "task_id")
    fields = {
        "task_id": task_id,
        "prompt": stated or prompt,
        "correct": remove_docstring(correct, entry_point),
        "buggy": remove_docstring(buggy, entry_point),
        "test": test,
        "entry_point": entry_point,
        "bugs": [text_field(row, "bug_type")],
        "problem": task_id.replace("Python", "HumanEval"),
    }
    return bug_task(index, fields)


@lru_cache(maxsize=1)
def stand_in_rows() -> list[Row]:
    """Put one fault of ours in each solution of HumanEval whose tests find one, in the hub's format."""
    faults = bundled_faults()
    rows: list[Row] = []
    for source in bundled_sources():
        if not source.name.startswith("HumanEval/") or source.name.endswith("/divided"):
            continue
        node = find_function(source.code, source.entry_point)
        assert node is not None and not isinstance(node.body, ast.expr)
        lines = source.code.splitlines(keepends=True)
        first = node.body[0].lineno - 1
        declaration = "".join(lines[:first])
        alone = [keys for keys in faults.get(source.name, ()) if len(keys) == 1]
        # The bug must be in the body: the prompt shows the header.
        fitting = [keys for keys in alone if source.mutate(keys).startswith(declaration)]
        if not fitting:
            continue
        number = int(stream(0, "humanevalfix", source.name).integers(len(fitting)))
        (key,) = fitting[number]
        rows.append(
            {
                "task_id": source.name.replace("HumanEval", "Python"),
                "prompt": source.statement,
                "declaration": declaration,
                "canonical_solution": source.code[len(declaration) :],
                "buggy_solution": source.mutate([key])[len(declaration) :],
                "bug_type": key.partition("@")[0].replace("_", " "),
                "entry_point": source.entry_point,
                "test": source.test,
            }
        )
    return rows


HUMANEVALFIX = Dataset(
    name="humanevalfix",
    hub="bigcode/humanevalpack",
    filename="humanevalfix.jsonl",
    bundled=stand_in_rows,
    to_task=humanevalfix_task,
    stand_in=True,
    config="python",
)
