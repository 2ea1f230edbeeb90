"""Episodes of evaluations are chains whose groups have one joint sample, however many are played in step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms.rollouts.collection import Move, Prompts, collect_rollouts, sampling
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.rollout import Start, TextEnv, Timer
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
    chains = collect_rollouts(make_env(2), same, STARTS, group_size=1, rng=rng)
    assert [episode.groups for episode in episodes] == [chain.groups for chain in chains]
    assert all(group.joint == ((0, 0),) for episode in episodes for group in episode.groups)


def test_so_many_are_played_in_step(make_env: Callable[..., Any], team: Team) -> None:
    sizes: list[int] = []

    def act(
        team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], timer: Timer
    ) -> list[Move]:
        sizes.append(len(envs))
        return sampling(1)(team, envs, prompts, timer)

    episodes = play_episodes(make_env(1), team, STARTS, act=act, at_a_time=2)
    assert sizes == [2, 2, 1]
    assert [episode.start for episode in episodes] == STARTS
    assert play_episodes(make_env(1), team, []) == []


def test_engines_reuse_prefixes_within_one_collection_alone(
    make_env: Callable[..., Any], make_policy: Callable[..., Any]
) -> None:
    events: list[str] = []

    class Engine:
        def __init__(self, policy: Any) -> None:
            self.policy = policy

        @contextmanager
        def reuse_prefixes(self, dialogues: bool) -> Iterator[None]:
            events.append("dialogues" if dialogues else "begin")
            yield
            events.append("end")

        def generate(self, requests: Sequence[Any], num_samples: int = 1) -> Any:
            events.append("turn")
            return self.policy.generate([text for _, text in requests], num_samples)

    policies = [make_policy(seed=seed) for seed in (1, 2)]
    for policy in policies:
        policy.engine = Engine(make_policy(seed=1))
    policies[1].history = "chat"
    team = dict(zip("xy", policies, strict=True))
    play_episodes(make_env(2), team, STARTS[:3], at_a_time=2)
    once = ["begin", "dialogues", "turn", "turn", "turn", "turn", "end", "end"]
    assert events == once * 2


def test_ways_to_act_decide_what_is_recorded(make_env: Callable[..., Any], team: Team) -> None:
    draft = {"x": (Completion("?"),), "y": (Completion("!"),)}

    def act(
        team: Team, envs: Sequence[TextEnv], prompts: Sequence[Prompts], timer: Timer
    ) -> list[Move]:
        with timer("thinking"):
            moves = [Move(dict.fromkeys(texts, "Again."), {}) for texts in prompts]
        answers = {"x": (Completion("a"),), "y": (Completion("b"),)}
        return [replace(move, completions=answers, drafts=(draft,)) for move in moves]

    timer = Timer()
    (episode,) = play_episodes(make_env(1), team, STARTS[:1], act=act, timer=timer)
    (group,) = episode.groups
    assert group.prompts == {"x": "Again.", "y": "Again."}
    assert [group.completions[agent][0].text for agent in "xy"] == ["a", "b"]
    assert group.drafts == (draft,)
    assert set(timer.seconds) == {"thinking", "stepping"}
