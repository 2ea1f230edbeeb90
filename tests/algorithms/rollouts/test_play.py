"""Episodes of evaluations are chains whose groups have one joint sample, however many are played in step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.plans import play_episodes, rollout_chains
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.sampling import Move, Prompts, Stopwatch, sampling
from llm_decpomdp.policy import Completion, Team

STARTS = [Start(seed=number) for number in range(5)]


@pytest.fixture
def team(make_policy: Callable[..., Any]) -> Team:
    return {"x": make_policy(seed=1), "y": make_policy(seed=2)}


def test_an_episode_is_a_chain_of_one_joint_sample(
    make_env: Callable[..., Any], make_policy: Callable[..., Any], team: Team
) -> None:
    episodes = play_episodes(make_env(2), team, STARTS)
    same = {"x": make_policy(seed=1), "y": make_policy(seed=2)}
    rng = np.random.default_rng(7)
    chains = rollout_chains(make_env(2), same, STARTS, group_size=1, rng=rng)
    assert [episode.groups for episode in episodes] == [chain.groups for chain in chains]
    assert all(group.joint == ((0, 0),) for episode in episodes for group in episode.groups)


def test_so_many_are_played_in_step(make_env: Callable[..., Any], team: Team) -> None:
    sizes: list[int] = []

    def act(
        team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], stopwatch: Stopwatch
    ) -> list[Move]:
        sizes.append(len(envs))
        return sampling(1)(team, envs, prompts, stopwatch)

    episodes = play_episodes(make_env(1), team, STARTS, act=act, at_a_time=2)
    assert sizes == [2, 2, 1]
    assert [episode.start for episode in episodes] == STARTS
    assert play_episodes(make_env(1), team, []) == []


def test_a_way_to_act_decides_prompts_completions_and_drafts(
    make_env: Callable[..., Any], team: Team
) -> None:
    draft = {"x": (Completion("?"),), "y": (Completion("!"),)}

    def act(
        team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], stopwatch: Stopwatch
    ) -> list[Move]:
        with stopwatch("thinking"):
            moves = [Move(dict.fromkeys(texts, "Again."), {}) for texts in prompts]
        answers = {"x": (Completion("a"),), "y": (Completion("b"),)}
        return [replace(move, completions=answers, drafts=(draft,)) for move in moves]

    clock = Stopwatch()
    (episode,) = play_episodes(make_env(1), team, STARTS[:1], act=act, stopwatch=clock)
    (group,) = episode.groups
    assert group.prompts == {"x": "Again.", "y": "Again."}
    assert [group.completions[agent][0].text for agent in "xy"] == ["a", "b"]
    assert group.drafts == (draft,)
    assert set(clock.seconds) == {"thinking", "stepping"}
