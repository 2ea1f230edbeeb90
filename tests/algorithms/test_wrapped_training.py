"""Training in wrapped environments, and policies that hand on what another one can do."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp import make
from llm_decpomdp.agents.scripted import Constant
from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions
from llm_decpomdp.algorithms.learning.base_learner import trainable_policies
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import TinyPolicy, Unigram
from tests.algorithms.runs import build
from tests.wrapper_cases import Paying


def players() -> dict[str, TinyPolicy]:
    return {f"player_{n}": TinyPolicy(Unigram(4), "abc", 1) for n in range(2)}


@pytest.mark.parametrize("plan", ["chain", "tree"])
def test_runs_train_and_evaluate_on_the_rewards_of_the_wrapper(tmp_path: Path, plan: str) -> None:
    env, bonus = make("probe-turns-v0"), 16.0
    for name, one in (("plain", env), ("wrapped", Paying(env, bonus))):
        build(
            tmp_path / name, env=one, team=players(), mode=plan, learner={"learning_rate": 0.0}
        ).run_updates()
    plain, wrapped = (
        list(read_json_lines(tmp_path / name / "metrics.jsonl")) for name in ("plain", "wrapped")
    )
    assert len(plain) == len(wrapped) > 2
    for one, other in zip(plain, wrapped, strict=True):
        assert other["reward_mean"] == pytest.approx(one["reward_mean"] + bonus)
    rows = list(read_json_lines(tmp_path / "wrapped" / "episodes.jsonl"))
    assert {row["final"] is None for row in rows if row["phase"] == "eval"} == {False}


class Delegate:
    """A policy that hands on what another one can do."""

    def __init__(self, other: Any) -> None:
        self.other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self.other, name)


def test_a_policy_that_hands_on_is_not_trained_and_named(caplog: pytest.LogCaptureFixture) -> None:
    team: dict[str, Any] = {**players(), "player_0": Delegate(TinyPolicy(Unigram(4), "abc", 1))}
    assert set(trainable_policies(team)) == {"player_1"}
    with caplog.at_level(logging.WARNING, logger="llm_decpomdp"):
        Learner(team, ALGORITHMS["magrpo"], LearnerOptions(learning_rate=0.1))
        Learner(
            {**players(), "player_0": Constant("a")},
            ALGORITHMS["magrpo"],
            LearnerOptions(learning_rate=0.1),
        )
    (found,) = caplog.messages
    assert "policy of player_0 is not trained: its class Delegate has no act, generate" in found


def test_a_policy_of_frozen_weights_needs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    team = players()
    for weight in team["player_0"].parameters():
        weight.requires_grad_(False)
    Learner(team, ALGORITHMS["magrpo"], LearnerOptions(learning_rate=0.1))
    assert not caplog.messages and torch.is_grad_enabled()
