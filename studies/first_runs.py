"""One short run in each family of worlds: `python -m studies.first_runs FAMILY SEED`.

Tiny models imitate references of training tasks, and then learn from the team's reward on training tasks. The
scores of test tasks before and after are printed beside the known numbers.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from llm_decpomdp import make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import (
    ALGORITHMS,
    LearnerOptions,
    RolloutOptions,
    Start,
    collect_rollouts,
)
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.training.sft import SupervisedTraining
from llm_decpomdp.algorithms.training.sft_data import reference_demonstrations
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from llm_decpomdp.benchmarks.evaluation.statistics import bootstrap
from llm_decpomdp.envs.worlds.strategies import NUMBERS, play
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream


@dataclass(frozen=True)
class Setting:
    """Options of a family, and how its models learn."""

    options: dict[str, Any]
    alphabet: str
    """Characters of the models."""
    tokens: int
    """Tokens of an answer at most."""
    task_seeds: int = 1
    """Seeds of training tasks, 400 tasks each. No level of the test tasks is in any of them."""
    epochs: int = 20
    """Number of times that a training task is imitated."""
    updates: int = 60
    tasks: int = 8
    """Tasks of an update, of which each is played by `GROUP` teams."""
    learning_rate: float = 1e-3
    """Step size of the updates."""


SETTINGS = {
    "pooled-v0": Setting({}, "abcd", 2, epochs=3, updates=80, tasks=32, learning_rate=3e-3),
    "sokoban-v1": Setting(
        {"size": 4, "num_turns": 2, "max_moves": 6},
        "UDLR#.WGB*?+\n ",
        tokens=8,
        task_seeds=6,
        epochs=8,
        updates=90,
    ),
    "sudoku-v1": Setting({"clues": 12, "num_turns": 2}, "1234.\n ", 20),
}
GROUP = 16
"""Episodes of each task of an update."""


def run(family: str, seed: int) -> None:
    """Train a team, and print its scores of the test tasks and the known numbers."""
    setting, began = SETTINGS[family], time.process_time()
    arguments = {**setting.options, "wording": "bare"}
    envs = [make(family, task_seed=n, **arguments) for n in range(setting.task_seeds)]
    env, test = envs[0], make(family, split="test", **arguments)
    team = {
        agent: tiny_causal_lm(
            setting.alphabet,
            Sampling(max_new_tokens=setting.tokens),
            width=48,
            seed=int(stream(seed, "policy", agent).integers(2**32)),
        )
        for agent in env.possible_agents
    }
    reward: Any = test.reward
    for name in NUMBERS:
        strategy = reward.strategies[name]
        played_in = make(family, **{**arguments, "split": "test", **strategy.changes})
        played = [play(played_in, task.task_id, strategy) for task in test.tasks.tasks]
        print(f"{family}, {name}: {np.mean(played):.3f}", flush=True)

    def show(moment: str) -> None:
        found = measure(test, team)
        seconds = time.process_time() - began
        print(f"seed {seed}, {moment}: score {found}, {seconds:.0f} s", flush=True)

    starts = [[Start(task_id=task.task_id) for task in split.tasks.tasks] for split in envs]
    lessons = [
        lesson
        for split, tasks in zip(envs, starts, strict=True)
        for lesson in reference_demonstrations(split, tasks, split.possible_agents)
    ]
    options = WarmStartOptions(
        source="gold", epochs=setting.epochs, learning_rate=3e-3, batch_size=16
    )
    warm_start = SupervisedTraining(team, lessons, options, max_grad_norm=1.0, seed=seed)
    while not warm_start.done:
        warm_start.accumulate()
        warm_start.step()
    show("after imitation")
    settings = LearnerOptions(learning_rate=setting.learning_rate, max_grad_norm=0.3)
    learner = ALGORITHMS["marloo"].make_learner(team, settings, seed)
    episodes, rng = RolloutOptions(mode="episodes"), stream(seed, "rollouts")
    for update in range(setting.updates):
        tasks = starts[update % len(envs)]
        places = stream(seed, "starts", update).permutation(len(tasks))[: setting.tasks]
        batch = [tasks[int(place)] for place in places]
        split = envs[update % len(envs)]
        learner.update(collect_rollouts(split, team, batch, episodes, group_size=GROUP, rng=rng))
    show(f"after {setting.updates} updates")


def measure(env: Any, team: Team) -> str:
    """Return the mean score of an episode of each task, with its 95 % interval over tasks."""
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    rollouts = play_episodes(env, team, starts)
    scores = [sum(group.rewards[0] for group in rollout.groups) for rollout in rollouts]
    found = bootstrap(np.array(scores))
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(sys.argv[1], int(sys.argv[2]))
