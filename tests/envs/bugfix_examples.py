"""A program for three agents to repair, and helpers around it."""

from __future__ import annotations

import json

import llm_decpomdp

PROGRAM = '''
SIZE = 2


def double(x):
    """Twice as much."""
    return SIZE * x


def smaller(x, y):
    """The smaller of two numbers."""
    return min(x, y)


def total(values, most):
    """The sum of all values, each doubled and at most `most`.

    >>> total([1, 9], 5)
    7
    """
    result = 0
    for value in values:
        result += smaller(double(value), most)
    return result
'''
TEST = """
def check(candidate):
    assert candidate([1, 9], 5) == 7
    assert candidate([], 5) == 0
    assert candidate([4, -1], 10) == 6
"""
ROW = {"task_id": "Own/0", "program": PROGRAM, "entry_point": "total", "test": TEST}
BUG = "Own/0:operator@7:17"
"""`double` gives `SIZE + x`, which only the test with an empty list outlives."""


def program_file(tmp_path, **changed):
    """A file with the program, as a path."""
    path = tmp_path / "programs.jsonl"
    path.write_text(json.dumps({**ROW, **changed}) + "\n")
    return str(path)


def three_fixers(tmp_path):
    """An environment of three agents at `BUG`."""
    env = llm_decpomdp.make(
        "bugfix-v0", source=program_file(tmp_path), num_agents=3, sandbox_slice="all"
    )
    env.reset(options={"task_id": BUG})
    return env


def answers(env, **changed):
    """Everybody's functions as they are, but for some."""
    texts = {
        role.agent: "\n\n".join(
            env.task.given_functions[name] for name in role.owned_functions(env.task)
        )
        for role in env.roles
    }
    return {**texts, **changed}


def points(env, **changed):
    """The components that a joint completion earns in the first turn."""
    verdict = env.reward(env.task, answers(env, **changed))
    return {name: round(value, 4) for name, value in verdict.components.items()}, verdict.solved


def sample(items, count):
    """About so many of some items, at equal distances."""
    return items[:: max(1, len(items) // count)]
