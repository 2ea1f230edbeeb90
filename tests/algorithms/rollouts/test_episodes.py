"""Whole episodes: their groups, their cost, their rows, and what they learn that chains cannot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from llm_decpomdp import Completion, make
from llm_decpomdp.algorithms import Rollout, RolloutOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.learning.advantages import returns, visit_weights
from llm_decpomdp.algorithms.rollouts.checks import cost
from llm_decpomdp.algorithms.training.metrics import episode_row
from llm_decpomdp.benchmarks.evaluation.play import read_rollout


class Cycle:
    """Answers a letter with the letters in turn, and is silent where it holds nothing."""

    def __init__(self, letters: str) -> None:
        self.letters = letters
        self.asked = 0

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        rows = []
        for prompt in prompts:
            if len(prompt) > 1:
                rows.append([Completion("")] * num_samples)
                continue
            first, self.asked = self.asked, self.asked + num_samples
            letters = (self.letters[g % len(self.letters)] for g in range(first, self.asked))
            rows.append([Completion(letter) for letter in letters])
        return rows

    def act(self, prompt: str) -> str:
        return self.letters[0]


def grow(options: RolloutOptions, group_size: int = 4, **kwargs: Any) -> Rollout:
    env = make("probe-relay-v0", **kwargs)
    team = {agent: Cycle("abcd") for agent in env.possible_agents}
    rng = np.random.default_rng(0)
    starts = [Start(task_id="relay/b")]
    (rollout,) = collect_rollouts(env, team, starts, options, group_size=group_size, rng=rng)
    return rollout


def test_the_episodes_of_a_start_have_a_group_each_from_the_second_turn_on() -> None:
    rollout = grow(RolloutOptions(mode="episodes"), length=3)
    assert [len(turn) for turn in rollout.turns] == [1, 4, 4] and rollout.pooled
    root, *later = rollout.groups
    assert root.joint == ((0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 3))
    assert all(group.joint == ((0, 0, 0),) for group in later)
    assert visit_weights(rollout) == [1.0] + [0.25] * 8
    last = [group.rewards[0] for group in later[4:]]
    assert sorted(last) == pytest.approx([-1 / 3] * 3 + [1.0])


def test_the_return_of_a_joint_sample_is_that_of_its_episode() -> None:
    rollout = grow(RolloutOptions(mode="episodes"), length=3)
    values = returns(rollout, 0.5)
    for sample in range(4):
        place, total = (0, sample), rollout.groups[0].rewards[sample]
        for turn in (1, 2):
            index, group = next((i, g) for i, g in enumerate(rollout.groups) if g.parent == place)
            total += 0.5**turn * group.rewards[0]
            place = (index, 0)
        assert values[0][sample] == pytest.approx(total)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_the_cost_is_that_of_the_rollout(length: int) -> None:
    options = RolloutOptions(mode="episodes")
    rollout, expected = grow(options, length=length), cost(options, 4, length, length)
    assert len(rollout.groups) == expected.groups
    assert sum(len(group.rewards) for group in rollout.groups) == expected.joint_samples
    sampled = sum(len(group.completions["player_0"]) for group in rollout.groups)
    assert sampled == expected.completions == 4 * length


@pytest.mark.parametrize(
    "options",
    [RolloutOptions(mode="episodes"), RolloutOptions(joint_mode="common", num_partners=2)],
)
def test_a_stored_rollout_is_read_as_it_was(options: RolloutOptions) -> None:
    rollout = grow(options, length=2)
    stored = read_rollout(json.loads(json.dumps(episode_row(rollout, 1, "train"))))
    assert stored.pooled == rollout.pooled
    assert [g.anchors for g in stored.groups] == [g.anchors for g in rollout.groups]
    assert [g.joint for g in stored.groups] == [g.joint for g in rollout.groups]
    assert bool(stored.groups[0].anchors) == (options.joint_mode == "common")


def test_what_episodes_cannot_do_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"early_termination_threshold=1 means nothing with mode=episodes"
    ):
        RolloutOptions(mode="episodes", early_termination_threshold=1.0)
    with pytest.raises(ValueError, match="branch_selection=best means nothing with mode=episodes"):
        RolloutOptions(mode="episodes", branch_selection="best")
