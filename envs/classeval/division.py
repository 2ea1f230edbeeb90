"""The division of the methods of a class among agents.

| `by`         | rule                                                                                       |
|--------------|--------------------------------------------------------------------------------------------|
| `parameters` | upstream's: methods with only `self` for agent 0, the others for agent 1; with more agents, |
|              | those with k further parameters for agent k, the last agent takes the rest                 |
| `balanced`   | equal work: the largest method first, each to the agent with the least so far              |
| `dependency` | methods that call each other stay together, as far as every agent gets something           |

Work is measured in statements of the data's own solution. With `balanced` and `dependency` no agent is idle
where there are as many methods as agents.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from itertools import combinations

from llm_decpomdp.envs.source_code.classes.skeleton import FunctionNode, Outline, find_class
from llm_decpomdp.envs.source_code.completion import parsed
from llm_decpomdp.validation import check_whole, unknown

RULES = ("balanced", "parameters", "dependency")

Shares = tuple[tuple[str, ...], ...]
"""The names of the methods of each agent, in the order of the skeleton."""


@lru_cache(maxsize=1024)
def divide(outline: Outline, solution: str, by: str, num_agents: int) -> Shares:
    """Divide the methods of a class among agents.

    Args:
        outline: The class.
        solution: The data's own solution, for how much work each method is and what calls what; may be empty.
        by: One of `RULES`.
        num_agents: At least 1.

    Raises:
        ValueError: If `by` or `num_agents` is wrong.
    """
    check_division(by, num_agents)
    bodies = _bodies(outline, solution)
    if by == "parameters":
        groups = _by_parameters(outline, num_agents)
    elif by == "balanced":
        groups = _balanced(outline.names, bodies, num_agents)
    else:
        groups = _by_dependency(outline.names, bodies, num_agents)
    return tuple(tuple(name for name in outline.names if name in group) for group in groups)


def check_division(by: object, num_agents: object) -> None:
    """Refuse an unknown rule, or a team without agents.

    Raises:
        ValueError: If an argument is wrong.
    """
    if by not in RULES:
        raise ValueError(unknown("by", by, RULES))
    check_whole("num_agents", num_agents, 1)


def _bodies(outline: Outline, solution: str) -> dict[str, list[FunctionNode]]:
    """Return the solution's definitions of each method."""
    module = parsed(solution)
    node = find_class(module, outline.class_name) if module is not None else None
    definitions: dict[str, list[FunctionNode]] = {name: [] for name in outline.names}
    for statement in node.body if node is not None else []:
        if isinstance(statement, FunctionNode) and statement.name in definitions:
            definitions[statement.name].append(statement)
    return definitions


def _work(definitions: list[FunctionNode]) -> int:
    """Count the statements, at least 1."""
    nodes = [node for definition in definitions for node in ast.walk(definition)]
    return max(sum(isinstance(node, ast.stmt) for node in nodes) - len(definitions), 1)


def _by_parameters(outline: Outline, num_agents: int) -> list[set[str]]:
    groups: list[set[str]] = [set() for _ in range(num_agents)]
    for unit in outline.units:
        further = unit.parameters - 1 if unit.parameters else 1  # none at all is not only `self`
        groups[min(further, num_agents - 1)].add(unit.name)
    return groups


def _balanced(
    names: tuple[str, ...], bodies: dict[str, list[FunctionNode]], num_agents: int
) -> list[set[str]]:
    groups: list[set[str]] = [set() for _ in range(num_agents)]
    loads = [0] * num_agents
    work = {name: _work(bodies[name]) for name in names}
    for name in sorted(names, key=lambda name: -work[name]):
        least = min(range(num_agents), key=lambda agent: loads[agent])
        groups[least].add(name)
        loads[least] += work[name]
    return groups


def _by_dependency(
    names: tuple[str, ...], bodies: dict[str, list[FunctionNode]], num_agents: int
) -> list[set[str]]:
    """Join the two groups with the most calls between them, of equal ones the smallest, until all are few."""
    calls = {name: _called(bodies[name]) for name in names}
    groups = [{name} for name in names]

    def rank(pair: tuple[int, int]) -> tuple[int, int]:
        first, second = (groups[place] for place in pair)
        between = sum(b in calls[a] for a in first for b in second)
        between += sum(b in calls[a] for a in second for b in first)
        return -between, sum(_work(bodies[name]) for name in first | second)

    while len(groups) > num_agents:
        first, second = min(combinations(range(len(groups)), 2), key=rank)
        groups[first] |= groups.pop(second)
    return [*groups, *({*()} for _ in range(num_agents - len(groups)))]


def _called(definitions: list[FunctionNode]) -> set[str]:
    """Return the names of attributes that are looked up, as in `self.other(...)`."""
    nodes = [node for definition in definitions for node in ast.walk(definition)]
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}
