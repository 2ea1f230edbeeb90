"""Two tiny models learn to build letters together: `python -m studies.build_words SEED`.

Each of two agents owns half of the cells of a letter in `build-word-v0`, and one of them alone earns at most 2/3.
Both first imitate the reference on a few letters and shifts, and then learn from the team's reward alone on all
others. The mean score of the others is printed before and after.

Declared before the measurement of seeds 40, 41 and 42: after MAGRPO the score of the tasks that were not imitated
exceeds 2/3, by the 95 % interval over seeds and tasks. `python -m studies.build_words 40 41 42` prints that
interval. With 16 lessons in place of 36 this was not shown (`studies/LOG.md`).
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
from llm_decpomdp.algorithms.training.sft import SupervisedTraining
from llm_decpomdp.algorithms.training.sft_data import reference_demonstrations
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from llm_decpomdp.benchmarks.evaluation.statistics import bootstrap
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream

WORDS: dict[str, Any] = {
    "length": 1,
    "num_turns": 1,
    "knowledge": "all",
    "wording": "bare",
    "split": "all",
}
ALPHABET = "abcdefghijklmnopqrstuvwxyABCDEFGHIJKLMNOPQRSTUVWXYZ01"
LESSONS, EPOCHS = 36, 30
"""Tasks that are imitated, and how often."""
UPDATES, TASKS, GROUP, EPISODES = 80, 8, 16, 8
"""Updates of 8 tasks with 16 joint samples each; episodes of each task in an evaluation."""


def measure(team: Team, starts: list[Start]) -> list[float]:
    """Return the mean score of each task."""
    rollouts = play_episodes(make("build-word-v0", **WORDS), team, starts * EPISODES)
    scores = [rollout.groups[0].rewards[0] for rollout in rollouts]
    means: list[float] = np.reshape(scores, (EPISODES, len(starts))).mean(0).tolist()
    return means


def run(seed: int) -> list[float]:
    """Train a team, and return its mean scores of the tasks that were not imitated."""
    env, began = make("build-word-v0", **WORDS), time.process_time()
    team = {
        agent: tiny_causal_lm(
            ALPHABET,
            Sampling(max_new_tokens=12),
            width=64,
            seed=int(stream(seed, "policy", agent).integers(2**32)),
        )
        for agent in env.possible_agents
    }
    # One task for each letter and shift: they differ in colors besides, which these prompts do not show.
    loaded: tuple[Any, ...] = env.tasks.tasks
    tasks = list({(task.word, task.shift): task for task in loaded}.values())
    places = stream(0, "words").permutation(len(tasks))  # the same for all seeds
    starts = [Start(task_id=tasks[int(place)].task_id) for place in places]
    others = starts[LESSONS:]

    def show(moment: str) -> list[float]:
        scores = measure(team, others)
        print(
            f"seed {seed}, {moment}: score {np.mean(scores):.3f}, {time.process_time() - began:.0f} s",
            flush=True,
        )
        return scores

    lessons = reference_demonstrations(env, starts[:LESSONS], env.possible_agents)
    options = WarmStartOptions(source="gold", epochs=EPOCHS, learning_rate=4e-3)
    warm_start = SupervisedTraining(team, lessons, options, max_grad_norm=1.0, seed=seed)
    while not warm_start.done:
        warm_start.accumulate()
        warm_start.step()
    scores = show("after the warm start")
    settings = LearnerOptions(
        learning_rate=2e-3, max_grad_norm=0.3, lr_schedule="linear", total_updates=UPDATES
    )
    learner = ALGORITHMS["magrpo"].make_learner(team, settings, seed)
    rng = stream(seed, "rollouts")
    for update in range(UPDATES):
        drawn = stream(seed, "starts", update).permutation(len(others))[:TASKS]
        batch = [others[int(place)] for place in drawn]
        learner.update(collect_rollouts(env, team, batch, group_size=GROUP, rng=rng))
        if update % 40 == 39:
            scores = show(f"after {update + 1} updates")
    return scores


if __name__ == "__main__":
    torch.set_num_threads(1)
    table = [run(int(seed)) for seed in sys.argv[1:] or "0"]
    if len(table) > 1:
        found = bootstrap(table)
        print(f"{len(table)} seeds: {found.value:.3f} ({found.low:.3f} to {found.high:.3f})")
