"""Train two tiny models on OpenSpiel's tiny_hanabi: 8 points are safe, and 10 need a signal.

pip install '.[train,openspiel]'; then: python examples/openspiel_tiny_hanabi.py [SEED]
"""

import sys

import numpy as np

from llm_decpomdp import make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS, LearnerOptions, RolloutOptions, Start
from llm_decpomdp.algorithms import collect_rollouts as collect

# Short prompts and answers. With `illegal="first"` silence would be the first action.
VIEW = {"actions": "numbers", "brief": True, "illegal": "end"}
SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 0

train, test = (make("openspiel:tiny_hanabi", split=split, **VIEW) for split in ("train", "test"))
sampling, letters = Sampling(max_new_tokens=2), " 012:adp"  # of views such as `p1:d0 p0:a2`
team = {f"player_{i}": tiny_causal_lm(letters, sampling, seed=10 * SEED + i) for i in range(2)}
learner = ALGORITHMS["marloo"].make_learner(
    team, LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3), SEED
)
rng, episodes = np.random.default_rng(SEED), RolloutOptions(mode="episodes")
deals = [Start(task_id=task.task_id) for task in train.tasks.tasks]

for _ in range(60):
    batch = [deals[int(number)] for number in rng.choice(len(deals), 8, replace=False)]
    learner.update(collect(train, team, batch, episodes, group_size=16, rng=rng))

points = 0.0
for deal in test.tasks.tasks:
    prompts, _ = test.reset(options={"task_id": deal.task_id})
    while test.agents:
        actions = {agent: team[agent].act(prompts[agent]) for agent in test.acting}
        prompts, rewards, *_ = test.step(actions)
        points += 10 * rewards["player_0"] / len(test.tasks)
print(f"seed {SEED}: mean points on the test deals {points:.2f}")
