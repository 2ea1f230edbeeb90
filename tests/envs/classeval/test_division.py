"""Methods are divided among agents: every method to one agent, and nobody idle who need not be."""

from __future__ import annotations

from itertools import chain

import pytest

from llm_decpomdp.envs.classeval.roles import RULES, divide
from llm_decpomdp.envs.datasets.classeval import load_classes
from llm_decpomdp.envs.source_code.classes import outline
from tests.envs.class_examples import SOLUTION, shape_task

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


@pytest.mark.parametrize(
    ("by", "num_agents"), [("balance", 2), ("balanced", 0), ("balanced", True)]
)
def test_wrong_arguments_are_refused(by, num_agents):
    with pytest.raises(ValueError, match=r"balanced|num_agents"):
        divide(shape_task().outline, "", by, num_agents)
