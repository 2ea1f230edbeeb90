"""Classes as tasks, and the division of their methods."""

from __future__ import annotations

import doctest
import types
from itertools import chain

import pytest

from llm_decpomdp import make
from llm_decpomdp.envs.classeval import roles
from llm_decpomdp.envs.classeval.roles import RULES, class_team, divide
from llm_decpomdp.envs.datasets.classeval import class_task, load_classes
from llm_decpomdp.envs.datasets.rows import BadRow
from llm_decpomdp.envs.source_code.class_completion import read_class
from llm_decpomdp.envs.source_code.classes import merge, outline
from tests.envs.class_examples import ROW, SOLUTION, shape_task
from tests.envs.own_rows import write_lines

TEAMS = (1, 2, 3, 5, 9)


@pytest.fixture(scope="module")
def bundled():
    return load_classes("test", "bundled").tasks


@pytest.mark.parametrize("by", RULES)
@pytest.mark.parametrize("num_agents", TEAMS)
def test_every_method_belongs_to_exactly_one_agent(bundled, by, num_agents):
    for task in bundled:
        shares = divide(task.outline, task.solution, by, num_agents)
        assert len(shares) == num_agents
        assert sorted(chain(*shares)) == sorted(task.outline.names)


@pytest.mark.parametrize("by", ["balanced", "dependency"])
@pytest.mark.parametrize("num_agents", TEAMS)
def test_nobody_is_idle_where_there_are_as_many_methods_as_agents(bundled, by, num_agents):
    for task in bundled:
        shares = divide(task.outline, task.solution, by, num_agents)
        assert sum(map(bool, shares)) == min(num_agents, len(task.outline.names))


def test_by_parameters_methods_with_only_self_are_the_first_agents():
    shape = shape_task().outline
    assert divide(shape, "", "parameters", 2) == (("area", "name", "unit"), ("scaled",))
    assert divide(shape, "", "parameters", 4) == (("area", "name", "unit"), (), ("scaled",), ())


def test_a_method_without_any_parameter_is_not_one_with_only_self():
    shape = outline(
        "class A:\n    @staticmethod\n    def f():\n        pass\n\n    def g(self): ...\n", "A"
    )
    assert divide(shape, "", "parameters", 2) == (("g",), ("f",))


def test_balanced_gives_the_longest_method_to_an_agent_of_its_own():
    shares = divide(shape_task().outline, SOLUTION, "balanced", 2)
    assert shares == (("scaled",), ("area", "name", "unit"))


def test_by_dependency_methods_that_call_each_other_stay_together():
    shares = divide(shape_task().outline, SOLUTION, "dependency", 3)
    assert any({"area", "scaled"} <= set(share) for share in shares)


def test_a_property_and_its_setter_are_one(bundled):
    thermostat = next(task for task in bundled if task.class_name == "Thermostat")
    assert thermostat.outline.names.count("target") == 1


def test_a_large_team_reads_the_solution_once(bundled, monkeypatch):
    read = []
    monkeypatch.setattr(roles, "read_class", lambda *args: read.append(args) or read_class(*args))
    roles._read_solution.cache_clear()
    references = [role.reference(bundled[0]) for role in class_team(64, "balanced")]
    assert len(read) == 1 and sum(map(bool, references)) == len(bundled[0].outline.names)


@pytest.mark.parametrize("env_id", ["classeval-v0", "coophumaneval-v0", "mbpp-v1", "bugfix-v0"])
def test_teams_that_are_too_large_are_refused(env_id):
    with pytest.raises(
        ValueError, match=r"num_agents must be at most 64, got 9999: .* take fewer agents"
    ):
        make(env_id, num_agents=9999, source="bundled")


@pytest.mark.parametrize(
    ("by", "num_agents"), [("balance", 2), ("balanced", 0), ("balanced", True)]
)
def test_wrong_arguments_are_refused(by, num_agents):
    with pytest.raises(ValueError, match=r"balanced|num_agents"):
        divide(shape_task().outline, "", by, num_agents)


def test_the_bundled_classes_are_at_least_twelve_and_all_different(bundled):
    assert len(bundled) >= 12
    assert len({task.class_name for task in bundled}) == len(bundled)
    assert all(len(task.outline.names) >= 4 and task.solution for task in bundled)


def test_the_examples_in_the_bundled_skeletons_are_right(bundled):
    for task in bundled:
        (role,) = class_team(1, "balanced")
        whole = merge(task.outline, (role.read(task, role.reference(task)),)).code
        module = types.ModuleType("example")
        exec(whole, module.__dict__)
        stub: dict[str, object] = {"__name__": "stub"}
        exec(task.prompt, stub)
        finder = doctest.DocTestFinder()
        texts = finder.find(stub[task.class_name], "stub", module=False, globs=module.__dict__)
        assert sum(len(text.examples) for text in texts) >= len(task.outline.names)
        for text in texts:
            failed = doctest.DocTestRunner(verbose=False).run(text, out=lambda _: None).failed
            assert failed == 0, text.name


def test_the_bundled_set_is_a_stand_in_and_says_so():
    data = make("classeval-v0", source="bundled").metadata["data"]
    assert data["stand_in"] and data["name"] == "classeval"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"skeleton": "class Shape:\n    def f(self): return 1\n"}, "no method to write"),
        ({"skeleton": "def f(: pass"}, "no class 'Shape'"),
        ({"class_name": "Circle"}, "no class 'Circle'"),
        ({"test": "import unittest\n"}, "no test method"),
        ({"test": "class"}, "does not parse"),
        ({"task_id": ""}, "task_id"),
    ],
)
def test_a_row_that_cannot_be_a_task_says_why(changes, said):
    with pytest.raises(BadRow, match=said):
        class_task(0, {**ROW, **changes})


def test_imports_of_a_row_that_its_skeleton_lacks_are_added():
    task = shape_task(import_statement=["import math", "from os import path"])
    assert task.prompt.startswith("from os import path\n")
    assert task.prompt.count("import math") == 1


def test_a_row_without_a_usable_solution_has_no_reference():
    task = shape_task(solution_code="class Other: pass")
    assert class_team(1, "balanced")[0].reference(task) is None


def test_a_class_that_needs_a_missing_package_is_left_out_and_says_why(tmp_path):
    needy = {**ROW, "task_id": "Shape/1", "import_statement": ["import no_such_package_at_all"]}
    path = write_lines(tmp_path / "classes.jsonl", [ROW, needy])
    env = make("classeval-v0", source=str(path))
    assert [task.task_id for task in env.tasks.tasks] == ["Shape/0"]
    assert "needs no_such_package_at_all" in env.metadata["data"]["excluded"]["Shape/1"]
    write_lines(path, [needy])
    with pytest.raises(ValueError, match="pip install pandas "):
        load_classes("test", str(path))


def test_known_issues_are_shown_and_can_be_left_out(tmp_path):
    rows = (ROW, {**ROW, "task_id": "ClassEval_17"})
    path = write_lines(tmp_path / "classes.jsonl", rows)
    data = make("classeval-v0", source=str(path)).metadata["data"]
    assert set(data["known_issues"]) == {"ClassEval_17"}
    env = make("classeval-v0", source=str(path), exclude_known_issues=True)
    assert [task.task_id for task in env.tasks.tasks] == ["Shape/0"]
