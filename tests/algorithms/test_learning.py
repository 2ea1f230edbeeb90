"""MAGRPO learns a team problem: two randomly initialised character models, one reward."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from pettingzoo import ParallelEnv

from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.policy import Completion
from tests.algorithms.runs import Run

LETTERS, MARKS = "abcd", "!?*"
WORDS = {"a": "bd", "b": "da", "c": "ab", "d": "cc"}
RANDOM_LEVEL = 3 / 64 * (0.5 + 0.25 * 2 / 8)
"""Mean reward of uniform tokens (8 of them, one the end), 0.026."""


class ReciteEnv(ParallelEnv[str, str, str]):
    """Recite a word, half each, behind a mark that the two must agree on without talking.

    The prompt is the word's key. Reward: nothing unless both texts begin with the same mark; then
    0.5, and 0.25 for each of the two letters in its place. The prompt does not give the mark: that
    is the team problem.
    """

    metadata = {"name": "recite_v0"}  # noqa: RUF012

    def __init__(self) -> None:
        self.possible_agents = ["left", "right"]
        self.agents: list[str] = []
        space = gymnasium.spaces.Text(10)
        self.observation_spaces = self.action_spaces = dict.fromkeys(self.possible_agents, space)
        self.key = "a"

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        self.agents = list(self.possible_agents)
        self.key = sorted(WORDS)[int(np.random.default_rng(seed).integers(len(WORDS)))]
        if options and "task_id" in options:
            self.key = options["task_id"]
        return dict.fromkeys(self.agents, self.key), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, str]) -> Any:
        left, right = actions["left"], actions["right"]
        word = WORDS[self.key]
        agree = left[:1] == right[:1] and left[:1] in set(MARKS)
        recited = (left[1:2] == word[0]) + (right[1:2] == word[1])
        reward = agree * (0.5 + 0.25 * recited)
        acted, self.agents = self.agents, []
        infos = {agent: {"reward/agree": 0.5 * agree} for agent in acted}
        every = dict.fromkeys
        return (
            every(acted, ""),
            every(acted, reward),
            every(acted, True),
            every(acted, False),
            infos,
        )


class Knowing:
    """Recites its half of the word perfectly."""

    def __init__(self, half: slice) -> None:
        self.half = half

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        return [[Completion(self.act(prompt))] * num_samples for prompt in prompts]

    def act(self, prompt: str) -> str:
        return "*" + WORDS[prompt][self.half]


KEYS = [Start(task_id=key) for key in WORDS]


def test_the_optimum_of_the_toy_is_one() -> None:
    team = {"left": Knowing(slice(0, 1)), "right": Knowing(slice(1, 2))}
    chains = collect_rollouts(ReciteEnv(), team, KEYS, group_size=1, rng=np.random.default_rng(0))
    assert [chain.groups[0].rewards[0] for chain in chains] == pytest.approx([1.0] * 4)


@pytest.mark.slow
def test_magrpo_takes_a_random_team_from_the_random_level_to_near_the_optimum(
    make_policy: Any, tmp_path: Path
) -> None:
    kind = {"alphabet": LETTERS + MARKS, "max_tokens": 2, "width": 32}
    team = {"left": make_policy(seed=1, **kind), "right": make_policy(seed=2, **kind)}
    trainer = Run(
        tmp_path,
        [KEYS] * 250,
        LearnerOptions(learning_rate=3e-3),
        TrainerOptions(group_size=32),
        env=ReciteEnv(),
        team=team,
        eval_starts=KEYS * 32,
    )
    summary = trainer.run_updates()
    assert summary["first_eval"]["reward_mean"] == pytest.approx(RANDOM_LEVEL, abs=0.04)
    assert summary["last_eval"]["reward_mean"] > 0.95
    assert summary["last_eval"]["reward/agree"] > 0.48
