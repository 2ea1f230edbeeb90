"""Train callers and planners on paths of 3x3 cells, and swap their roles.

`python -m studies.role_swap FOLDER 0` trains the team of seed 0, and `python -m studies.role_swap FOLDER` compares
all teams of the folder. Each agent has its own tiny model. It imitates references, then the team learns with
MAGRPO.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llm_decpomdp import make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.sft_data import reference_demonstrations
from llm_decpomdp.benchmarks.analysis.crossplay import swap_roles
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.seeding import stream

STEPS, LESSONS, UPDATES = 400, 32, 15
"""Steps of imitation, references of a step, and updates of reinforcement."""

RATE = 3e-3
"""Peak learning rate of the imitation."""

MOMENTS = ("imitation", "reinforcement")

Pair = Mapping[str, CausalLM]


def paths(split: str) -> DecPOMDPEnv:
    """Return the environment: a hint and an answer on a map of 3x3 cells, without rules in the prompts."""
    options: dict[str, Any] = {"size": 3, "max_moves": 6, "num_turns": 2, "wording": "bare"}
    return make("path-v1", split=split, **options)


def new_pair(env: DecPOMDPEnv, seed: int) -> Pair:
    """Return a caller and a planner with models of their own."""
    sampling = Sampling(max_new_tokens=8)
    return {
        agent: tiny_causal_lm(
            "UDLR#.WG?+\n ", sampling, width=48, layers=2, context=64, seed=2 * seed + place
        )
        for place, agent in enumerate(env.possible_agents)
    }


def imitate(env: DecPOMDPEnv, team: Pair, seed: int) -> None:
    """Let each agent imitate the references of the training tasks."""
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    lessons = reference_demonstrations(env, starts, env.possible_agents)
    for place, (agent, policy) in enumerate(team.items()):
        texts = [(lesson[place].prompt, str(lesson[place].completion)) for lesson in lessons]
        loss = fit(policy, texts, stream(seed, "imitation", agent))
        print(f"seed {seed}, {agent}: last loss {loss:.3f}", flush=True)


def fit(policy: CausalLM, texts: Sequence[tuple[str, str]], rng: np.random.Generator) -> float:
    """Fit a model to completions with their ends by cross-entropy, and return the last loss."""
    model: Any = policy.engine.model
    prompts = [policy.encoder.tokenize(prompt) for prompt, _ in texts]
    rows = [
        [*prompt, *policy.encoder.plain(text), 0]
        for prompt, (_, text) in zip(prompts, texts, strict=True)
    ]
    tokens = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    targets = torch.full_like(tokens, -100)
    for place, (prompt, row) in enumerate(zip(prompts, rows, strict=True)):
        tokens[place, : len(row)] = torch.tensor(row)
        targets[place, len(prompt) : len(row)] = torch.tensor(row[len(prompt) :])
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    loss = torch.zeros(())
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        batch = torch.from_numpy(rng.permutation(len(rows))[:LESSONS])
        scores = model(tokens[batch]).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(
            scores.flatten(0, 1), targets[batch][:, 1:].flatten()
        )
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return float(loss.detach())


def reinforce(env: DecPOMDPEnv, team: Pair, seed: int) -> None:
    """Let the team learn with MAGRPO on training tasks."""
    options = LearnerOptions(learning_rate=3e-4, max_grad_norm=1.0)
    learner = Learner(dict(team), ALGORITHMS["magrpo"], options)
    rng = stream(seed, "reinforcement")
    for _ in range(UPDATES):
        tasks = rng.choice(len(env.tasks.tasks), size=8, replace=False)
        starts = [Start(task_id=env.tasks.tasks[int(number)].task_id) for number in tasks]
        rollouts = collect_rollouts(
            env, dict(team), starts, group_size=8, rng=rng, options=RolloutOptions(mode="episodes")
        )
        learner.update(rollouts)


def swap(teams: Mapping[str, Pair], folder: Path) -> None:
    """Play the test tasks with own and swapped roles, except for finished evaluations, and print the effects."""
    env = paths("test")
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    found = swap_roles(
        env, {name: dict(team) for name, team in teams.items()}, starts, folder=folder, samples=2
    )
    for measure, effect in found.effects.items():
        print(folder.name, measure, effect.own, effect.swapped, effect.difference, flush=True)


def train(folder: Path, seed: int) -> None:
    """Train a team, and swap its roles after imitation and after reinforcement."""
    begin, env = time.process_time(), paths("train")
    team, name = new_pair(env, seed), f"seed-{seed}"
    for moment, learn in zip(MOMENTS, (imitate, reinforce), strict=True):
        learn(env, team, seed)
        swap({name: team}, folder / f"{moment}-{seed}")
    print(f"seed {seed}: {time.process_time() - begin:.0f} s of processor time", flush=True)


def compare(folder: Path) -> None:
    """Compare all teams that were trained, from their evaluations."""
    for moment in MOMENTS:
        seeds = sorted(int(path.name.split("-")[1]) for path in folder.glob(f"{moment}-*"))
        together = folder / f"all-{moment}"
        for seed in seeds:
            cells = folder / f"{moment}-{seed}" / "cells"
            shutil.copytree(cells, together / "cells", dirs_exist_ok=True)
        # Finished evaluations are read, so that the weights do not matter.
        swap({f"seed-{seed}": new_pair(paths("test"), seed) for seed in seeds}, together)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 2:
        train(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        compare(Path(sys.argv[1]))
