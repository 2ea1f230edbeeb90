"""PettingZoo's AEC API: our environments in it, and AEC environments of others in the parallel API."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from gymnasium.spaces import Discrete
from pettingzoo import AECEnv
from pettingzoo.test import api_test, parallel_api_test, seed_test
from pettingzoo.utils import AgentSelector

from llm_decpomdp import UnicodeText, aec, check_env, from_aec, make
from llm_decpomdp.algorithms import (
    ALGORITHMS,
    Learner,
    LearnerOptions,
    RolloutOptions,
    Start,
    collect_rollouts,
)
from llm_decpomdp.branching import branch
from studies.hypotheses.training import TabularPolicy

GAMES = {
    "simultaneous": partial(make, "coophumaneval-v0", source="bundled"),
    "order": partial(make, "coophumaneval-v0", source="bundled", order=["aux_0", "main_0"]),
    **{
        name: partial(make, f"probe-{name}-v0")
        for name in ("relay-turns", "early-exit", "late-entry", "verifier")
    },
}


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_both_views_keep_the_contract(name, texts_have_no_dtype):
    api_test(aec(GAMES[name]()), num_cycles=20)
    if name != "late-entry":  # it seeds the action spaces of the agents that are there at first
        seed_test(lambda: aec(GAMES[name]()), num_cycles=20)
    check_env(lambda: from_aec(aec(GAMES[name]())))


def test_the_aec_view_selects_the_acting_agents_alone():
    env = aec(GAMES["order"]())
    env.reset(seed=0)
    selected = []
    for agent in env.agent_iter(max_iter=6):
        selected.append((agent, env.observe(agent) != ""))
        env.step(None if env.terminations[agent] else "text")
    assert selected == 2 * [("aux_0", True), ("main_0", True)] + [
        ("aux_0", False),
        ("main_0", False),
    ]


def test_an_action_that_is_no_text_is_refused_when_it_is_given():
    env = aec(GAMES["simultaneous"]())
    env.reset(seed=0)
    with pytest.raises(TypeError, match="the action of 'aux_0' must be a str, got int"):
        env.step(3)
    for _ in range(2):
        env.step("text")
    assert env.infos["aux_0"]["turn"] == 1


class Countdown(AECEnv):
    """Players take turns; each names the number below the one before, and the team earns 1 for each."""

    metadata = {"name": "countdown_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self, shared: bool = True, space: Any = None) -> None:
        self.possible_agents = ["player_0", "player_1", "player_2"]
        self.shared = shared
        self._space = space or UnicodeText(20)

    def observation_space(self, agent):
        return self._space

    def action_space(self, agent):
        return self._space

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.number, self.left = 10, 6
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self._order = AgentSelector(self.agents)
        self.agent_selection = self._order.next()

    def observe(self, agent):
        return str(self.number)

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            return self._was_dead_step(action)
        self._cumulative_rewards[agent] = 0.0
        earned = float(action == str(self.number - 1))
        self.number, self.left = self.number - 1, self.left - 1
        self.rewards = {a: earned if self.shared or a == agent else 0.0 for a in self.agents}
        self.terminations = dict.fromkeys(self.agents, self.left == 0)
        self.agent_selection = self._order.next()
        self._accumulate_rewards()
        return None


def test_an_environment_of_others_is_played_turn_by_turn():
    check_env(lambda: from_aec(Countdown()))
    env = from_aec(Countdown())
    parallel_api_test(env, num_cycles=20)
    prompts, _ = env.reset(seed=0)
    total, players = 0.0, []
    while env.agents:
        (agent,) = env.acting
        assert [name for name, text in prompts.items() if text] == [agent]
        players.append(agent)
        prompts, rewards, *_ = env.step({agent: str(int(prompts[agent]) - 1)})
        total += rewards["player_0"]
    assert total == 6.0 and players == 2 * env.possible_agents


def test_unequal_rewards_are_summed_on_request():
    env = from_aec(Countdown(shared=False), team_reward="sum")
    env.reset(seed=0)
    assert set(env.step({"player_0": "9"})[1].values()) == {1.0}
    own = from_aec(Countdown(shared=False))
    own.reset(seed=0)
    assert own.step({"player_0": "9"})[1] == {"player_0": 1.0, "player_1": 0.0, "player_2": 0.0}


def test_misuse_is_an_error_with_the_remedy():
    with pytest.raises(TypeError, match="observation space of 'player_0' must be one of texts"):
        from_aec(Countdown(space=Discrete(3)))
    with pytest.raises(ValueError, match="team_reward must be one of"):
        from_aec(Countdown(), team_reward="mean")
    env = from_aec(Countdown())
    env.reset()
    with pytest.raises(KeyError, match="no action for agent 'player_0'"):
        env.step({"player_1": "9"})


@pytest.mark.parametrize("name", GAMES)
def test_a_branch_is_independent_and_shares_the_data(name):
    env = from_aec(aec(GAMES[name]()))
    env.reset(seed=0)
    env.step(dict.fromkeys(env.acting, "text"))
    twin, other = branch(env), branch(env)
    assert twin.aec_env.env.tasks is env.aec_env.env.tasks
    played = []
    for game in (twin, env):
        steps = []
        while game.agents:
            steps.append(game.step(dict.fromkeys(game.acting, "a")))
        played.append((steps, game.state()))
    assert played[0] == played[1] and other.agents and other.state() != env.state()


def test_learners_train_on_an_environment_of_others():
    env = from_aec(Countdown())
    team = {
        agent: TabularPolicy([str(n) for n in range(4, 10)], seed)
        for seed, agent in enumerate(env.possible_agents)
    }
    options = LearnerOptions(learning_rate=0.3)
    learner, plan = Learner(team, ALGORITHMS["marloo"], options), RolloutOptions(mode="episodes")
    for _ in range(30):
        learner.update(collect_rollouts(env, team, [Start(seed=0)], plan, group_size=8))
    (rollout,) = collect_rollouts(env, team, [Start(seed=0)], plan, group_size=8)
    assert sum(sum(group.rewards) for group in rollout.groups) / 8 > 5  # of 6
