"""Train a team on an AEC environment, PettingZoo's API in which one agent acts at a time, and play it in that API.

The game stands for any `AECEnv` whose spaces are texts: `player_0` sees a letter, and `player_1`, who acts second,
must say it.
"""

import numpy as np

from llm_decpomdp import aec, from_aec, make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import (
    ALGORITHMS,
    Learner,
    LearnerOptions,
    RolloutOptions,
    Start,
    collect_rollouts,
)

game = aec(make("probe-relay-turns-v0"))
env, players = from_aec(game), game.possible_agents
short = Sampling(max_new_tokens=2)
team = {agent: tiny_causal_lm("abc", short, seed=i) for i, agent in enumerate(players)}
options = LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3)
learner = Learner(team, ALGORITHMS["marloo"], options)
episodes, rng = RolloutOptions(mode="episodes"), np.random.default_rng(0)
for update in range(1, 37):
    starts = [Start(seed=4 * update + i) for i in range(4)]
    rollouts = collect_rollouts(env, team, starts, episodes, group_size=16, rng=rng)
    learner.update(rollouts)
    if update % 6 == 0:
        rewards = [group.rewards for rollout in rollouts for group in rollout.last]
        print(f"update {update:2}  mean reward {np.mean(rewards):.2f}")

game.reset(seed=0)
for agent in game.agent_iter():
    prompt, reward, terminated, truncated, info = game.last()
    game.step(None if terminated or truncated else team[agent].act(prompt))
print(f"reward of an episode {reward}")
