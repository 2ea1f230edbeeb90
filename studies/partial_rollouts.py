"""Do answers that continue under new weights cost anything? Tiny models learn a probe, with and without them.

python -m studies.partial_rollouts [UPDATES] [SEEDS]

The arms are: no lag, a lag of two updates, and at most two with `in_flight`. Answers have up to twelve tokens.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

import llm_decpomdp
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS, LearnerOptions
from llm_decpomdp.algorithms.learning.learner_options import ImportanceSamplingOptions
from llm_decpomdp.algorithms.rollout_workers.base import WorkerState
from llm_decpomdp.algorithms.rollout_workers.in_flight import InFlightWorkers
from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.rollouts.rollout_options import TrainerOptions
from llm_decpomdp.algorithms.sources import add_wrappers
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback
from llm_decpomdp.algorithms.training.trainer import Trainer
from llm_decpomdp.algorithms.training.worker_source import WorkerSource
from llm_decpomdp.envs.probes.known import PROBES
from studies.hypotheses.training import every_start, value

PROBE, TOKENS, GROUP_SIZE = "probe-rendezvous-v0", 12, 32
ARMS: dict[str, dict[str, Any]] = {
    "no lag": {},
    "lag 2": {"max_async_level": 2},
    "lag 2, in flight": {"max_async_level": 2, "in_flight": True},
}
NAMES = ("reward_mean", "lag", "older_tokens", "mixed_completions")


class Rows(TrainerCallback):
    """Keeps the rows of updates."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def on_log(
        self, trainer: Trainer, row: Mapping[str, Any], rollouts: Sequence[Rollout] = ()
    ) -> None:
        """Keep a row."""
        self.rows.append(dict(row))


def state(seed: int) -> WorkerState:
    """Return the environment, and a team with the weights of a seed."""
    torch.set_num_threads(1)
    env = llm_decpomdp.make(PROBE)
    team = {
        agent: tiny_causal_lm(
            PROBES[PROBE].letters, Sampling(max_new_tokens=TOKENS), seed=10 * seed + number
        )
        for number, agent in enumerate(env.possible_agents)
    }
    return WorkerState(env, env, team)


def train(arm: str, seed: int, updates: int) -> None:
    """Train a team, and print the share of the optimum that it reaches and the means of metrics."""
    here, rows = state(seed), Rows()
    env: Any = here.env
    correction = ImportanceSamplingOptions("truncate" if ARMS[arm] else "none")
    settings = LearnerOptions(learning_rate=4e-3, max_grad_norm=1.0, importance_sampling=correction)
    learner = ALGORITHMS["magrpo"].make_learner(here.team, settings, seed)
    options = TrainerOptions(group_size=GROUP_SIZE, seed=seed, rollout_batch_size=99, **ARMS[arm])
    kind = InFlightWorkers if options.in_flight else ProcessRolloutWorkers
    worker = kind(partial(state, seed), 1)
    batches = [every_start(env)] * updates
    sampled = WorkerSource(env, here.team, learner, options, batches, worker=worker)
    source = add_wrappers(sampled, env, here.team, learner, options, can_prefetch=True)
    begin = time.perf_counter()
    Trainer(here.env, here.team, learner, source, options, [rows]).train()
    seconds = time.perf_counter() - begin
    share = value(env, here.team) / PROBES[PROBE].optimum
    means = {n: np.mean([row[n] for row in rows.rows if n in row] or [0.0]) for n in NAMES}
    words = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
    print(f"{arm}, seed {seed}: {share:.3f} of the optimum, {words}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[1:]] + [40, 3][len(sys.argv) - 1 :]
    for run_seed in range(numbers[1]):
        for name in ARMS:
            train(name, run_seed, numbers[0])
