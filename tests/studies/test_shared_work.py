"""The study of two coders that share the work."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from llm_decpomdp.benchmarks.suites.suite import load_suite
from llm_decpomdp.envs.coding.division import POINTS
from studies import shared_work
from studies.shared_work.__main__ import (
    COMPARED,
    MEASURES,
    SHARED,
    TESTS,
    TOKENS,
    _scores,
    table,
    verdicts,
)

CONSTANT = np.linspace(0.1, 0.9, 8)[None].repeat(3, 0)


def arm(shared: float, tests: float, tokens: float) -> dict[str, np.ndarray]:
    return {SHARED: CONSTANT * shared, TESTS: CONSTANT * tests, TOKENS: CONSTANT * tokens}


def test_goals_and_signs_of_differences_decide() -> None:
    arms = {
        "demonstrations": arm(0.2, 0.4, 40),
        "magrpo": arm(0.8, 1.0, 30),
        "single_grpo": arm(0, 1.0, 50),
        "levels": arm(1.0, 1.0, 30),
    }
    lines = {line.split(",")[0]: line for line in verdicts(arms)}
    assert lines["S1"].endswith("goal 0.3 reached") and lines["S2"].endswith("confirmed")
    assert "0.60" in lines["S4"] and lines["S4"].endswith("reached")
    assert lines["S6"].endswith("refuted") and set(lines) == {"S1", "S2", "S4", "S6"}
    slow = dict(arms, magrpo=arm(0.4, 1.0, 40))
    assert [line.endswith("missed") for line in verdicts(slow)] == [True, True, False, False]
    assert list(table(arms))[3].startswith("| magrpo | 3 | 0.40")


def test_a_shared_program_has_full_marks_for_shared_work() -> None:
    values = {"a": [POINTS["shared"], POINTS["shared"] - 0.01], "b": [0.0, 0.0]}
    evaluation = SimpleNamespace(tasks=("a", "b"), values=dict.fromkeys(MEASURES.values(), values))
    scores = _scores([evaluation])  # type: ignore[list-item]
    assert scores[SHARED].tolist() == [[0.5, 0.0]]
    assert scores[TESTS].tolist() == [[pytest.approx(POINTS["shared"] - 0.005), 0.0]]


def test_hypotheses_name_arms_of_the_suite() -> None:
    suites = Path(shared_work.__file__).parent.rglob("suite.yaml")
    arms = [arm for path in suites for arm in load_suite(path).arms]
    names = {arm.name.removesuffix(f"-{Path(arm.config).stem}") for arm in arms}
    assert {name for _, _, *pair, _ in COMPARED for name in pair} | {"single_grpo"} <= names
    assert all(measure in MEASURES for _, measure, *_ in COMPARED)
    assert {arm.seeds for arm in arms} == {(0, 1, 2)}
    assert [arm.train_env for arm in arms if "levels" in arm.name] == [
        "mbpp-v0",
        "coophumaneval-v0",
    ]
