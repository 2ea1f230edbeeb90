"""MBPP, sanitized: short problems in one sentence, each with a reference and a few asserts.

Austin et al. 2021 (arXiv 2108.07732), 427 rows in the hub's configuration `sanitized`. A problem's text names
neither the function nor its parameters. So the prompt adds the header that the tests need: the function that the
asserts call, with the parameters of the reference.

| split        | task ids   | rows | for                    |
|--------------|------------|------|------------------------|
| `train`      | 601 to 974 | 120  | training               |
| `validation` | 511 to 600 | 43   | choosing between runs  |
| `test`       | 11 to 510  | 257  | evaluation             |
| `prompt`     | 1 to 10    | 7    | examples in prompts    |
| `all`        |            | 427  | audits                 |

CoMLRL trains on `test[15:65]` and evaluates on `test[:15]`. To keep both apart, train on `train`. For more
training problems, train on `train+validation+test[64:]` and evaluate on `test[:64]`.

A file holds the rows of all splits. The split of a row is its field `split`, or else that of its task id; a row
without either belongs to all splits.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from functools import lru_cache, partial

from llm_decpomdp.envs.datasets.humaneval import CodeTask, code_task
from llm_decpomdp.envs.datasets.loading import Dataset
from llm_decpomdp.envs.datasets.rows import BadRow, Row, bundled_rows, missing, text_field
from llm_decpomdp.envs.sandbox.syntax import names
from llm_decpomdp.envs.source_code.parsing import FUNCTIONS, parse

SPLITS = ("prompt", "test", "validation", "train")
LAST_IDS = (10, 510, 600, 974)
"""The last task id of each split."""


def mbpp_task(index: int, row: Row) -> CodeTask:
    """Make a task of a row with `task_id`, `prompt`, `code`, `test_list` and optionally `test_imports`.

    Raises:
        BadRow: If a field is missing, empty or unusable.
    """
    code = text_field(row, "code").replace("\r\n", "\n")
    tests, imports = _lines(row, "test_list"), _lines(row, "test_imports")
    if "test_list" not in row:
        raise BadRow(missing(row, "test_list"))
    if not tests:
        raise BadRow("field 'test_list' holds no test")
    test = "\n".join([*imports, *tests])
    entry_point, prompt = _make_prompt(code, test, text_field(row, "prompt"))
    fields = {"prompt": prompt, "entry_point": entry_point, "test": test, "main": code}
    return code_task(index, {"task_id": _task_id(row), **fields})


@lru_cache(maxsize=2048)
def _make_prompt(code: str, test: str, text: str) -> tuple[str, str]:
    reference = _parse_field(code, "'code'")
    tests = _parse_field(test, "'test_list' or 'test_imports'")
    entry_point = find_entry_point(reference, tests)
    return entry_point, header(reference, entry_point, tests, text)


def _parse_field(code: str, fields: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" in the data's code
            return parse(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadRow(f"field {fields} does not parse: {error}") from None


def _task_id(row: Row) -> str:
    number = row.get("task_id")
    if isinstance(number, int) and not isinstance(number, bool):
        return f"MBPP/{number}"
    return text_field(row, "task_id")


def _lines(row: Row, name: str) -> list[str]:
    value = row.get(name)
    value = [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise BadRow(f"field {name!r} must be a list of texts, got {value!r}")
    return value


def find_split(row: Row) -> str | None:
    """Return the split of a row, None for all splits."""
    split, number = row.get("split"), row.get("task_id")
    if isinstance(split, str):
        return split
    if not isinstance(number, int):
        return None
    # The splits are consecutive ranges of task ids.
    ends = zip(SPLITS, LAST_IDS, strict=True)
    return next((split for split, last in ends if number <= last), None)


def find_entry_point(code: ast.Module, tests: ast.Module) -> str:
    """Return the function of `code` that most tests call.

    Raises:
        BadRow: If they call none.
    """
    defined = [node.name for node in code.body if isinstance(node, FUNCTIONS)]
    callers: Counter[str] = Counter()
    for test in tests.body:
        callees = [node.func for node in ast.walk(test) if isinstance(node, ast.Call)]
        callers.update({f.id for f in callees if isinstance(f, ast.Name) and f.id in defined})
    if not callers:
        raise BadRow(f"field 'test_list' calls none of the functions in 'code': {defined}")
    # Of equally frequent functions the last, which may use the others as helpers.
    return max(callers, key=lambda name: (callers[name], defined.index(name)))


def header(code: ast.Module, entry_point: str, tests: ast.Module, text: str) -> str:
    """Return a function's header with a docstring, after the other definitions that it and the tests use.

    Args:
        code: The reference.
        entry_point: Name of the function.
        tests: The tests, which may use other names of the reference, such as a constant.
        text: The docstring.
    """
    definitions = [node for node in code.body if isinstance(node, FUNCTIONS)]
    function = [node for node in definitions if node.name == entry_point][-1]
    head = type(function)(
        name=function.name,
        args=function.args,
        body=[ast.Expr(ast.Constant(text.strip()))],
        decorator_list=[],
        returns=function.returns,
    )
    imported = {name for statement in tests.body for name in _binds(statement)}
    required_names = (names(head) | names(tests)) - imported
    parts = [*_required_statements(code, required_names, entry_point), head]
    return "\n\n\n".join(ast.unparse(ast.fix_missing_locations(part)) for part in parts) + "\n"


def _required_statements(
    tree: ast.Module, required_names: set[str], entry_point: str
) -> list[ast.stmt]:
    """Return the statements that define these names, directly or indirectly; never the entry point."""
    statements: set[ast.stmt] = set()
    pending = [*required_names]
    while pending:
        name = pending.pop()
        for statement in tree.body:
            if statement not in statements and name in _binds(statement) - {entry_point}:
                statements.add(statement)
                pending += names(statement)
    return [statement for statement in tree.body if statement in statements]


def _binds(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    nodes = ast.walk(statement)
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


MBPP = Dataset(
    name="mbpp",
    hub="google-research-datasets/mbpp",
    config="sanitized",
    filename="mbpp_sanitized.jsonl",
    bundled=partial(bundled_rows, "mbpp.jsonl"),
    to_task=mbpp_task,
    stand_in=True,
    splits=SPLITS,
    find_split=find_split,
)
