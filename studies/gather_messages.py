"""Two tiny models tell each other where to go: `python -m studies.gather_messages [SEED LESSONS UPDATES]`.

The map of `gather-v0` has nine cells, and each agent sees the cell that the other one needs. Both first imitate
the reference on a few maps, and then learn from the team's reward alone on all others. The value of communication
is printed before and after this learning, on all maps. At the end the team is also measured with scrambled
messages, without learning again.

Declared before the measurement of seeds 30, 31 and 32: with one fact of bandwidth the value exceeds 0.3 with each
seed, and by the t interval of the three values; with scrambled messages it does not exceed 0. With 4 lessons in
place of 8 this was not shown (`studies/LOG.md`).
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch

from llm_decpomdp import make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS, LearnerOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.sft import SupervisedTraining
from llm_decpomdp.algorithms.training.sft_data import reference_demonstrations
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    bootstrap,
    value_of_communication,
)
from llm_decpomdp.envs.worlds.strategies import exact_numbers
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream

MAP: dict[str, Any] = {
    "size": 3,
    "amount": 1,
    "steps": 1,
    "num_turns": 2,
    "wording": "bare",
    "split": "all",
}
EPOCHS, MAPS, GROUP, EPISODES = 20, 8, 16, 10
"""Imitations of each map; maps of an update and episodes of each; episodes of each map in an evaluation."""


def measure(team: Team, starts: list[Start], **options: Any) -> Estimate:
    """Return the value of communication over the maps."""
    env = make("gather-v0", **{**MAP, **options})
    rollouts = play_episodes(env, team, starts * EPISODES)
    returns = [sum(group.rewards[0] for group in rollout.groups) for rollout in rollouts]
    table = np.reshape(returns, (EPISODES, len(starts))).mean(0)
    value = value_of_communication(bootstrap(table), exact_numbers(env))
    assert value is not None
    return value


def run(seed: int, lessons: int = 8, updates: int = 100) -> None:
    """Imitate `lessons` maps, learn from rewards for some updates, and print the values of communication."""
    env, began = make("gather-v0", **MAP), time.process_time()
    team = {
        agent: tiny_causal_lm(
            "abcdefghi.",
            Sampling(max_new_tokens=3),
            seed=int(stream(seed, "policy", agent).integers(2**32)),
        )
        for agent in env.possible_agents
    }
    tasks = [env.tasks.tasks[int(i)] for i in stream(seed, "maps").permutation(len(env.tasks))]
    starts = [Start(task_id=task.task_id) for task in tasks]

    def show(moment: str, **options: Any) -> None:
        value = measure(team, starts, **options)
        print(
            f"seed {seed}, {moment}: value of communication {value.value:.3f} ({value.low:.3f} to "
            f"{value.high:.3f}), {time.process_time() - began:.0f} s",
            flush=True,
        )

    examples = reference_demonstrations(env, starts[:lessons], env.possible_agents)
    options = WarmStartOptions(source="gold", epochs=EPOCHS, learning_rate=1e-2)
    warm_start = SupervisedTraining(team, examples, options, max_grad_norm=1.0, seed=seed)
    while not warm_start.done:
        warm_start.accumulate()
        warm_start.step()
    show("after the warm start")
    settings = LearnerOptions(
        learning_rate=4e-3, max_grad_norm=0.3, lr_schedule="linear", total_updates=updates
    )
    learner = ALGORITHMS["marloo"].make_learner(team, settings, seed)
    episodes, rng = RolloutOptions(mode="episodes"), stream(seed, "rollouts")
    for update in range(updates):
        drawn = stream(seed, "starts", update).permutation(len(starts) - lessons)[:MAPS]
        batch = [starts[lessons + int(place)] for place in drawn]
        learner.update(collect_rollouts(env, team, batch, episodes, group_size=GROUP, rng=rng))
    show(f"after {updates} updates")
    show("scrambled messages", scramble=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(*map(int, sys.argv[1:] or ["0"]))
