"""A training loop by hand: sample groups, learn from them, look at what the team says.

Two language models of random weights find a common word, in seconds on one core and offline. Put models of your
own in their place with `load_policy`.
"""

import numpy as np

from llm_decpomdp import make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions, Start, collect_rollouts

env = make("probe-rendezvous-v0")
team = {
    agent: tiny_causal_lm("abc", Sampling(max_new_tokens=2), seed=seed)
    for seed, agent in enumerate(env.possible_agents)
}
options = LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3)
learner = Learner(team, ALGORITHMS["magrpo"], options)
rng = np.random.default_rng(0)

for update in range(1, 31):
    rollouts = collect_rollouts(env, team, [Start(seed=update)], group_size=32, rng=rng)
    learner.update(rollouts)
    if update % 5 == 0:
        reward = np.mean(rollouts[0].groups[0].rewards)
        print(f"update {update:2}  mean reward {reward:.2f}")

prompts, _ = env.reset(seed=0)
actions = {agent: team[agent].act(prompts[agent]) for agent in env.agents}
_, rewards, *_ = env.step(actions)
print(f"the team says {actions} and earns {rewards}")
