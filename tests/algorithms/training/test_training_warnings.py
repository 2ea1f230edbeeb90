"""Warnings about made rows: each is given for its pattern, and not for the healthy one."""

from __future__ import annotations

from typing import Any

import pytest

from llm_decpomdp.algorithms.training.metrics import find_warnings

UPDATES = 60


def updates(**ends: tuple[float, float]) -> list[dict[str, Any]]:
    """Rows whose numbers go from one value to another in a straight line."""
    usual = {"reward_mean": (1.0, 1.1), "entropy/main_0": (1.0, 0.8), "kl/main_0": (0.0, 0.01)}
    usual |= {"tokens": (100.0, 110.0), "truncated/main_0": (0.0, 0.0), "silent": (0.0, 0.0)}
    usual |= {name.replace("__", "/"): values for name, values in ends.items()}
    rows = []
    for number in range(UPDATES):
        share = number / (UPDATES - 1)
        row = {key: first + share * (last - first) for key, (first, last) in usual.items()}
        counts = {"groups": 2, "groups_without_signal": round(2 * row.pop("silent"))}
        rows.append({"update": number + 1, "kind": "train", "turn_1/groups": 2, **counts, **row})
    return rows


def evaluation(reward: float, **more: float) -> dict[str, Any]:
    return {"kind": "eval", "reward_mean": reward, "reward_standard_error": 0.05, **more}


def names(rows: list[dict[str, Any]], evaluations: list[dict[str, Any]] | None = None) -> list[str]:
    return [warning.name for warning in find_warnings(rows, evaluations or [])]


def test_a_healthy_training_has_no_warning() -> None:
    assert names(updates(), [evaluation(1.0), evaluation(1.1)]) == []


@pytest.mark.parametrize(
    ("ends", "name"),
    [
        ({"entropy__main_0": (1.0, 0.01)}, "entropy collapse of main_0"),
        ({"kl__main_0": (0.0, 0.6)}, "growing KL of main_0"),
        ({"silent": (1.0, 1.0)}, "no group with signal"),
        ({"tokens": (100.0, 300.0), "reward_mean": (1.0, 0.9)}, "growing length"),
        ({"tokens": (100.0, 300.0), "truncated__main_0": (0.0, 0.9)}, "growing length"),
        (
            {"reward_mean": (1.0, 0.5), "reward_model__mean": (0.0, 2.0)},
            "reward model and task apart",
        ),
    ],
)
def test_each_pattern_has_its_warning(ends: dict[str, tuple[float, float]], name: str) -> None:
    assert names(updates(**ends)) == [name]


def test_equal_answers_to_solved_tasks_are_no_collapse() -> None:
    assert names(updates(entropy__main_0=(1.0, 0.01), solved=(0.2, 1.0))) == []


def test_growth_that_earns_reward_is_no_fault() -> None:
    assert names(updates(tokens=(100.0, 300.0))) == []


def test_held_out_reward_that_does_not_follow_is_drift() -> None:
    rows = updates(reward_mean=(1.0, 3.0))
    assert names(rows, [evaluation(1.0), evaluation(1.1)]) == ["training and held-out apart"]
    assert names(rows, [evaluation(1.0), evaluation(2.5)]) == []
    assert names(rows, [evaluation(1.0)]) == []


def test_answers_for_the_visible_tests_alone_are_named() -> None:
    first, last = (
        evaluation(1.0, visible_tests=shown, hidden_tests=hidden)
        for shown, hidden in ((0.5, 0.5), (0.9, 0.4))
    )
    (warning,) = find_warnings([], [first, last])
    assert warning.name == "visible tests pass, hidden ones fail"
    assert "90% of the tests that prompts show pass, and 40% of the others" in warning.text
    assert find_warnings([], [last, first]) == []


def test_the_first_and_the_last_rows_are_enough() -> None:
    rows = updates(kl__main_0=(0.0, 0.6))
    assert find_warnings(rows, []) == find_warnings([*rows[:5], *rows[-5:]], [])
