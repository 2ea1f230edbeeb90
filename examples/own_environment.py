"""Train on an environment of your own: any PettingZoo parallel environment of texts will do.

Nothing of it comes from this library. Agents leave together and share one reward; `check_env` tells what else a
learner relies on.
"""

import numpy as np
from gymnasium.spaces import Text
from pettingzoo import ParallelEnv

from llm_decpomdp import check_env
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions, Start, collect_rollouts


class OppositesEnv(ParallelEnv):
    """Both are told `u` or `d`: the first says the same, the second the other one."""

    metadata = {"name": "opposites_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self):
        self.possible_agents = ["same_0", "other_0"]
        self.agents = []
        self.rng = np.random.default_rng()
        self.spaces = {agent: Text(1000, min_length=0) for agent in self.possible_agents}

    def observation_space(self, agent):
        return self.spaces[agent]

    def action_space(self, agent):
        return self.spaces[agent]

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.letter = str(self.rng.choice(["u", "d"]))
        return dict.fromkeys(self.agents, self.letter), {agent: {} for agent in self.agents}

    def step(self, actions):
        acted, self.agents = self.agents, []
        first, second = (actions.get(agent, "")[:1] for agent in self.possible_agents)
        right = (first == self.letter) + (second != self.letter and second in ("u", "d"))
        return (
            dict.fromkeys(acted, ""),
            dict.fromkeys(acted, right / 2),
            dict.fromkeys(acted, True),
            dict.fromkeys(acted, False),
            {agent: {} for agent in acted},
        )


check_env(OppositesEnv)

env = OppositesEnv()
team = {
    agent: tiny_causal_lm("ud", Sampling(max_new_tokens=2), seed=seed)
    for seed, agent in enumerate(env.possible_agents)
}
options = LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3)
learner = Learner(team, ALGORITHMS["marloo"], options)
rng = np.random.default_rng(0)

for update in range(1, 31):
    starts = [Start(seed=4 * update + i) for i in range(4)]
    rollouts = collect_rollouts(env, team, starts, group_size=16, rng=rng)
    learner.update(rollouts)
    if update % 5 == 0:
        reward = np.mean([rollout.groups[0].rewards for rollout in rollouts])
        print(f"update {update:2}  mean reward {reward:.2f}")
