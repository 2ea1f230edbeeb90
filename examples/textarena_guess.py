"""Train a tiny model on a game of TextArena, with the learners of this library.

It learns the number that one seed hides: that the loop closes, not how to search.
pip install '.[train,textarena]'; then: python examples/textarena_guess.py
"""

import string

import numpy as np

from llm_decpomdp import check_env
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions, Start, collect_rollouts
from llm_decpomdp.integrations import textarena

GAME = {"game_id": "GuessTheNumber-v0", "max_number": 9}

check_env(textarena.game, **GAME)
env = textarena.game(**GAME)

team = {"player_0": tiny_causal_lm(string.printable, Sampling(max_new_tokens=1), context=3000)}
step = LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3)
learner, rng = Learner(team, ALGORITHMS["grpo"], step), np.random.default_rng(0)

rewards = []
for update in range(1, 31):
    (rollout,) = collect_rollouts(env, team, [Start(seed=5)], group_size=16, rng=rng)
    learner.update([rollout])
    rewards.append(rollout.groups[0].rewards)
    if update % 5 == 0:
        print(f"update {update:2}  mean reward of the first turn {np.mean(rewards[-5:]):.2f}")
