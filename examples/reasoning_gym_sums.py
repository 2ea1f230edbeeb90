"""Train a tiny model on a data set of reasoning-gym, with the learners of this library.

pip install '.[train,reasoning-gym]'; then: python examples/reasoning_gym_sums.py
"""

import numpy as np

from llm_decpomdp import check_env
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions, Start, collect_rollouts
from llm_decpomdp.integrations import reasoning_gym

SUMS = {
    "min_terms": 2,
    "max_terms": 2,
    "max_digits": 1,
    "operators": ["+"],
    "whitespace": "no_space",
}
DATA = {"dataset": "basic_arithmetic", "size": 4, "seed": 3, "allow_negation": False, **SUMS}

check_env(reasoning_gym.questions, **DATA)
env = reasoning_gym.questions(**DATA)
starts = [Start(task_id=str(position)) for position in range(DATA["size"])]
prompts = [env.reset(options={"task_id": start.task_id})[0]["agent_0"] for start in starts]
alphabet = "".join(sorted({*"".join(prompts), *"0123456789"}))

team = {"agent_0": tiny_causal_lm(alphabet, Sampling(max_new_tokens=3), context=64)}
step = LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3)
learner, rng = Learner(team, ALGORITHMS["grpo"], step), np.random.default_rng(0)

for update in range(1, 61):
    rollouts = collect_rollouts(env, team, starts, group_size=32, rng=rng)
    learner.update(rollouts)
    if update % 10 == 0:
        reward = np.mean([rollout.groups[0].rewards for rollout in rollouts])
        print(f"update {update:2}  mean reward {reward:.2f}")
