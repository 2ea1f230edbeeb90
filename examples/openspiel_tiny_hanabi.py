"""Train two tiny models on OpenSpiel's tiny_hanabi: 8 points are safe, and 10 need a signal.

pip install '.[train,openspiel]'; then: python examples/openspiel_tiny_hanabi.py [SEED]
"""

import sys

import numpy as np

from llm_decpomdp import make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import (
    ALGORITHMS,
    LearnerOptions,
    RolloutOptions,
    Start,
    collect_rollouts,
)
from llm_decpomdp.algorithms.rollouts.collection import play_episodes

# Short prompts and answers. With `illegal="first"` silence would be the first action.
VIEW = {"actions": "numbers", "brief": True, "illegal": "end"}
SEED, UPDATES = int(sys.argv[1]) if len(sys.argv) > 1 else 0, 60

train, test = (make("openspiel:tiny_hanabi", split=split, **VIEW) for split in ("train", "test"))
sampling, letters = Sampling(max_new_tokens=2), " 012:adp"  # of views such as `p1:d0 p0:a2`
team = {f"player_{i}": tiny_causal_lm(letters, sampling, seed=10 * SEED + i) for i in range(2)}
learner = ALGORITHMS["marloo"].make_learner(
    team, LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3), SEED
)
rng, plan = np.random.default_rng(SEED), RolloutOptions(plan="episodes")
deals, tests = ([Start(task_id=t.task_id) for t in env.tasks.tasks] for env in (train, test))

for update in range(1, UPDATES + 1):
    batch = [deals[int(number)] for number in rng.choice(len(deals), 8, replace=False)]
    learner.update(collect_rollouts(train, team, batch, plan, group_size=16, rng=rng))
    if update % 20 == 0:
        episodes = play_episodes(test, team, tests)
        points = [10 * sum(group.rewards[0] for group in episode.groups) for episode in episodes]
        print(f"update {update:3}  mean points {np.mean(points):.2f}", flush=True)
