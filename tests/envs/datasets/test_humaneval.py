"""HumanEval and CoopHumanEval: correct solutions earn full marks on every row."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

import llm_decpomdp
from llm_decpomdp.envs.coding.reward import CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.datasets.humaneval import COOPHUMANEVAL, HUMANEVAL, CodeTask, code_task
from llm_decpomdp.envs.datasets.loading import load
from llm_decpomdp.envs.datasets.rows import KNOWN_ISSUES, BadRow
from llm_decpomdp.envs.source_code.parsing import find_function, parse
from llm_decpomdp.oracle import answers

ROW = {
    "task_id": "t/0",
    "prompt": 'def sq(x):\n    """square"""\n',
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    "entry_point": "sq",
}


@pytest.fixture(scope="module")
def humaneval() -> tuple[CodeTask, ...]:
    return load(HUMANEVAL, "test", "bundled").tasks


@pytest.fixture(scope="module")
def coophumaneval() -> tuple[CodeTask, ...]:
    return load(COOPHUMANEVAL, "test", "bundled").tasks


def rewards(tasks, write) -> dict[str, float]:
    """The reward of each task for the completions that `write` makes of it."""

    def judge(task: CodeTask) -> float:
        completions: Mapping[str, str] = write(task)
        return round(CodeReward(coding_team(len(completions)))(task, completions).reward, 9)

    with ThreadPoolExecutor(4) as pool:
        return dict(zip((t.task_id for t in tasks), pool.map(judge, tasks), strict=True))


def unlike(found: Mapping[str, float], expected: float) -> dict[str, float]:
    return {task_id: points for task_id, points in found.items() if points != expected}


def split_by_name(task: CodeTask) -> dict[str, str]:
    """The canonical solution as `aux`, and a main function that calls it and does a little itself."""
    solution = find_function(task.references["main_0"], task.entry_point)
    assert isinstance(solution, ast.FunctionDef)
    arguments = ", ".join(argument.arg for argument in solution.args.args)
    aux = parse(ast.unparse(solution)).body[0]  # in several threads
    aux.name = "aux"
    for node in ast.walk(aux):
        if isinstance(node, ast.Name) and node.id == task.entry_point:
            node.id = "aux"  # recursion
    body = f"    results = [aux({arguments})]\n    return results[0]\n"
    return {"aux_0": ast.unparse(aux), "main_0": f"{task.signature}:\n{body}"}


def test_all_164_canonical_solutions_earn_full_marks_alone(humaneval):
    assert len(humaneval) == 164
    found = rewards(humaneval, lambda task: {"main_0": task.references["main_0"]})
    assert unlike(found, 2.1) == {}


def test_all_164_with_a_helper_that_is_never_called_earn_no_bonus(humaneval):
    def write(task):
        return {
            "aux_0": "def aux(*values):\n    return values",
            "main_0": task.references["main_0"],
        }

    assert unlike(rewards(humaneval, write), 2.5) == {}


def test_all_164_mains_beside_a_helper_that_solves_the_problem_are_wrappers(humaneval):
    assert unlike(rewards(humaneval, split_by_name), 3.0) == {}


def test_all_82_bundled_reference_pairs_earn_full_marks(coophumaneval):
    assert len(coophumaneval) == 82
    assert unlike(rewards(coophumaneval, lambda task: task.references), 4.0) == {}


def test_bundled_problems_are_the_schema_and_size_of_the_real_ones(coophumaneval, humaneval):
    real = {task.task_id: task for task in humaneval}
    ours = [task for task in coophumaneval if task.task_id not in real]
    assert len(ours) == 66
    assert all(task.prompt == real[task.task_id].prompt for task in coophumaneval[:16])
    assert all(len(task.tests.cases) >= 5 for task in ours)
    assert all(set(task.references) == {"aux_0", "main_0"} for task in coophumaneval)
    assert [task.index for task in coophumaneval] == list(range(82))


def test_a_signature_stands_in_every_prompt(humaneval, coophumaneval):
    for task in (*humaneval, *coophumaneval):
        assert task.signature.startswith(f"def {task.entry_point}(")
        assert "(...)" not in task.signature


def test_the_helper_of_a_prompt_is_not_taken_for_its_entry_point(humaneval):
    task = humaneval[32]
    assert task.signature == "def find_zero(xs: list)"
    assert "def poly(" in task.preamble and "import math" in task.preamble
    assert "def find_zero(" not in task.preamble


# Rows


def test_a_row_becomes_a_task():
    task = code_task(3, ROW)
    assert (task.task_id, task.index, task.entry_point) == ("t/0", 3, "sq")
    assert task.tests.cases == ("assert sq(2) == 4",)
    assert task.references == {} and task.known_issue is None


def test_references_come_from_main_and_aux_or_from_the_canonical_solution():
    assert code_task(0, {**ROW, "main": "m", "aux": "a"}).references == {
        "main_0": "m",
        "aux_0": "a",
    }
    task = code_task(0, {**ROW, "canonical_solution": "    return x * x\n"})
    assert task.references == {"main_0": ROW["prompt"] + "    return x * x\n"}
    assert code_task(0, {**ROW, "canonical_solution": "return ("}).references == {}


def test_known_issues_of_the_data_stand_in_their_tasks():
    for task_id, reason in KNOWN_ISSUES.items():
        assert code_task(0, {**ROW, "task_id": task_id}).known_issue == reason


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"prompt": ""}, "field 'prompt' must be a text that is not empty, got ''"),
        ({"prompt": None}, "field 'prompt' must be a text"),
        ({"prompt": "x" * 100_001}, "field 'prompt' has 100001 characters"),
        ({"test": 5}, "field 'test' must be a text that is not empty, got 5"),
        ({"test": "def check(:"}, "field 'test': the test does not parse"),
        ({"test": "def check(candidate):\n    pass\n"}, "field 'test' holds no assert"),
        ({"test": "assert another(2) == 3\n"}, "field 'test' holds no assert about"),
        ({"task_id": " "}, "field 'task_id' must be a text"),
        ({"entry_point": "not a name"}, "field 'entry_point' must be a function's name"),
    ],
)
def test_a_bad_row_names_its_field(change, text):
    with pytest.raises(BadRow) as error:
        code_task(0, {**ROW, **change})
    assert text in str(error.value)


def test_the_bundled_references_earn_full_marks_alone_too() -> None:
    env = llm_decpomdp.make("coophumaneval-v0", source="bundled", num_agents=1)
    for task in env.tasks.tasks[::6]:
        env.reset(options={"task_id": task.task_id})
        assert env.step({"main_0": answers(env).reference("main_0")})[1]["main_0"] == pytest.approx(
            2.1
        )
