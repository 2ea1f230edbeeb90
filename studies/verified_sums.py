"""Do own points teach a verifier of `verified-v0` sooner? Tiny models on four sums of single digits.

python -m studies.verified_sums SEED OWN_WEIGHT [UPDATES] [WARM_UPDATES]

The solver first learns alone for WARM_UPDATES updates, so that it is fallible and no longer always wrong.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import llm_decpomdp
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import (
    ALGORITHMS,
    LearnerOptions,
    RolloutOptions,
    Start,
    collect_rollouts,
)
from llm_decpomdp.algorithms.rollouts.play import play_episodes

SUMS = {"min_terms": 2, "max_terms": 2, "max_digits": 1}
LETTERS = "".join(sorted({*"0123456789+-=arc"}))
GROUP_SIZE = 16
ROLLOUTS = RolloutOptions(mode="episodes")
EPISODES = 32
"""Episodes of each task in a measurement."""


def learn(seed: int, own_weight: float, updates: int, warm_updates: int) -> None:
    """Train a team, and print every tenth update what it has learned."""
    options: dict[str, Any] = {
        "source": "bundled",
        "brief": True,
        "dataset_options": SUMS,
        "split": "train[:4]",
    }
    env = llm_decpomdp.make("verified-v0", **options)
    alone = llm_decpomdp.make("verified-v0", num_agents=1, **options)
    team = {
        agent: tiny_causal_lm(
            LETTERS, Sampling(max_new_tokens=3), context=24, seed=10 * seed + number
        )
        for number, agent in enumerate(env.possible_agents)
    }
    rng = np.random.default_rng(seed)
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    phases = [
        (alone, {"solver_0": team["solver_0"]}, 0.0, warm_updates),
        (env, team, own_weight, updates),
    ]
    for phase_env, members, weight, count in phases:
        settings = LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3, own_weight=weight)
        learner = ALGORITHMS["marloo"].make_learner(members, settings, seed)
        for update in range(1, count + 1):
            rollouts = collect_rollouts(
                phase_env, members, starts, ROLLOUTS, group_size=GROUP_SIZE, rng=rng
            )
            learner.update(rollouts)
            if members is team and update % 10 == 0:
                shares = measure(env, team, starts)
                text = "  ".join(f"{name} {share:.2f}" for name, share in shares.items())
                print(f"seed {seed} own {own_weight:g} update {update:3}  {text}", flush=True)


def measure(env: Any, team: Any, starts: list[Start]) -> dict[str, float]:
    """Return the shares of right final answers, right answers of the solver, and right verdicts."""
    last = [rollout.groups[-1] for rollout in play_episodes(env, team, starts * EPISODES)]
    return {
        "team": float(np.mean([group.infos[0]["score"] for group in last])),
        "solver": float(np.mean([group.infos[0]["right"] for group in last])),
        "verdicts": float(np.mean([group.own["verifier_0"][0] for group in last])),
    }


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[3:]]
    learn(int(sys.argv[1]), float(sys.argv[2]), *numbers, *(60, 30)[len(numbers) :])
