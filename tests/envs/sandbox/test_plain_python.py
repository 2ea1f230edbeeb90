"""Tests that users write have the results of plain Python, or are warned of, or are known to differ."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest

from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL, HUMANEVAL, code_task
from llm_decpomdp.envs.datasets.loading import load
from llm_decpomdp.envs.datasets.mbpp import MBPP
from llm_decpomdp.envs.sandbox import Limits, Program, Sandbox, instrument
from llm_decpomdp.envs.sandbox.differences import differences
from tests.envs.own_rows import make_rows, write_lines
from tests.envs.sandboxed import program

PLAIN = """
import json, os, sys
idioms = json.load(sys.stdin)
passed = {}
os.chdir(sys.argv[1])
for name, (code, test) in idioms.items():
    child = os.fork()
    if child == 0:
        space = {"__name__": "__main__"}
        try:
            exec(code, space)
            exec(test, space)
            space["check"](space["f"])
        except BaseException:
            os._exit(1)
        os._exit(0)
    passed[name] = os.waitpid(child, 0)[1] == 0
print("results", json.dumps(passed))
"""
"""Runs each program and its test in one interpreter."""


def idioms(group: str) -> dict[str, tuple[str, str]]:
    """Return the program and the test of each idiom of a group, by name."""
    text = Path(__file__).with_name("idioms.txt").read_text("utf-8")
    section = text.partition(f"### {group}\n")[2].partition("\n### ")[0]
    entries = {}
    for entry in section.split("=== ")[1:]:
        name, _, rest = entry.partition("\n")
        code, _, test = rest.partition("\n---\n")
        indented = textwrap.indent(test.strip("\n"), "    ")
        entries[name] = code, f"def check(candidate):\n{indented}\n"
    return entries


@cache
def plain(group: str, folder: Path) -> dict[str, bool]:
    command = [sys.executable, "-W", "ignore", "-c", PLAIN, str(folder)]
    text = json.dumps(idioms(group))
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    results: dict[str, bool] = json.loads(done.stdout.rpartition("results ")[2])
    return results


def here(group: str) -> dict[str, bool]:
    """Return whether each program passes all tests, and there are some."""
    found = idioms(group)
    results = {}
    for packages in ((), ("numpy",)):
        names = [name for name in found if name.startswith("numpy") == bool(packages)]
        jobs = [(program(found[name][0], "f"), instrument(found[name][1], "f")) for name in names]
        executions = Sandbox(Limits(), cache_size=0, packages=packages).run_batch(jobs)
        for name, execution in zip(names, executions, strict=True):
            tests = execution.tests
            results[name] = bool(tests) and all(test.passed for test in tests)
    return results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("plain")


def test_common_idioms_have_the_results_of_plain_python(folder):
    found, expected = here("same"), plain("same", folder)
    assert {name: found[name] for name in found if found[name] != expected[name]} == {}
    assert len(found) >= 150


def test_idioms_that_have_other_results_are_warned_of(folder):
    tests = {name: test for name, (_, test) in idioms("warned").items()}
    assert [name for name, test in tests.items() if not differences(test, "f")] == []
    found, expected = here("warned"), plain("warned", folder)
    assert [name for name in found if found[name] == expected[name]] == []


def test_no_other_difference_has_gone(folder):
    """Each entry is a line of the table in `docs/data.md`; one that is supported now moves to `same`."""
    found, expected = here("differs"), plain("differs", folder)
    assert [name for name in found if found[name] == expected[name]] == []


@pytest.mark.parametrize("dataset", [HUMANEVAL, COOPHUMANEVAL, MBPP])
def test_the_tests_of_common_data_sets_are_not_warned_of(dataset):
    tasks = [dataset.to_task(index, row) for index, row in enumerate(dataset.bundled())]
    assert {task.task_id: task.remarks for task in tasks if task.remarks} == {}


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (("import random", "random.seed(42)", "assert candidate(0) == 81"), "seeds random"),
        (("import time", "time.time = lambda: 5", "assert candidate(0)"), "time.time"),
        (("import os", "os.environ['A'] = 'b'", "assert candidate(0)"), "os.environ"),
        (("import pytest", "with pytest.raises(KeyError): candidate(0)", "assert 1 + candidate(1)"), "pytest"),
        (("assert candidate(0) is candidate(1)",), "one object"),
        (("assert helper(0) == candidate(1)",), "helper"),
        (("assert candidate(Node(1)) == 1",), "Node"),
        (("assert isinstance(candidate(1), Node)",), "Node"),
    ],
)  # fmt: skip
def test_a_remark_names_the_reason(lines, word):
    test = "def check(candidate):\n" + "".join(f"    {line}\n" for line in lines)
    prompt = "class Node:\n    def __init__(self, value):\n        self.value = value\n\ndef f(x):\n    'd'\n"
    row = {"task_id": "own/0", "prompt": prompt, "entry_point": "f", "test": test}
    remarks = code_task(0, row).remarks
    assert any(word in remark for remark in remarks), remarks


@pytest.mark.parametrize(
    "lines",
    [
        ("import random", "random.seed(1)", "x = random.random()", "assert candidate(x) == x"),
        ("import io, contextlib as c", "with c.redirect_stdout(io.StringIO()) as out:", "    assert candidate(1)"),
        ("x = [1]", "assert candidate(x) is x"),
        ("assert candidate(1) is None",),
        ("try:", "    candidate(1)", "except ValueError as error:", "    assert str(error)"),
    ],
)  # fmt: skip
def test_what_works_is_not_warned_of(lines):
    assert (
        differences("def check(candidate):\n" + "".join(f"    {line}\n" for line in lines), "f")
        == ()
    )


PROMPT = """
class Short(ValueError):
    def __init__(self, missing):
        super().__init__(f"{missing} missing")
        self.missing = missing

def f(x):
    'Raise Short.'
"""


@pytest.mark.parametrize(
    ("body", "passed"),
    [
        ("raise Short(3)", True),
        ("raise Short(4)", False),
        ("raise ValueError('3 missing')", False),
        ("return 3", False),
    ],
)
def test_a_test_catches_the_exceptions_that_the_prompt_defines(body, passed):
    test = (
        "def check(candidate):\n    try:\n        candidate(1)\n    except Short as error:\n"
        "        assert error.missing == 3 and str(error) == '3 missing'\n    else:\n        assert False\n"
    )
    task = code_task(0, {"task_id": "own/0", "prompt": PROMPT, "entry_point": "f", "test": test})
    whole = Program((("main_0", f"def f(x):\n    {body}"),), "f", task.preamble)
    assert all(test.passed for test in Sandbox().run(whole, task.tests).tests) is passed
    assert task.remarks == ()


def test_rows_of_a_file_are_warned_of_once(tmp_path, caplog):
    seeding = "def check(candidate):\n    import random\n    random.seed(1)\n    assert candidate(1) == 3\n"
    rows = [
        row | {"test": seeding} if index == 2 else row for index, row in enumerate(make_rows(4))
    ]
    path = write_lines(tmp_path / "own.jsonl", rows)
    for _ in range(2):
        load(COOPHUMANEVAL, "all", path)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1 and "'own/2'" in messages[0] and "seeds random" in messages[0]
