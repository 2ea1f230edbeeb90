"""Train callers and planners on paths of 3x3 cells, and swap their roles: `python -m studies.role_swap FOLDER`.

Each agent has its own tiny model. It imitates references, then the team learns with MAGRPO. The folder gets the
role swaps before and after reinforcement.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from llm_decpomdp import make
from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.sft_data import reference_demonstrations
from llm_decpomdp.benchmarks.analysis.role_swap import RoleSwap, swap_roles
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.seeding import stream

SEEDS = 3

STEPS, LESSONS, UPDATES = 1200, 64, 40
"""Steps of imitation, references of a step, and updates of reinforcement."""

Pair = Mapping[str, CausalLM]


def paths(split: str) -> DecPOMDPEnv:
    """Return the environment: a hint and an answer on a map of 3x3 cells, without rules in the prompts."""
    options = {"size": 3, "max_moves": 6, "num_turns": 2, "wording": "bare"}
    return make("path-v1", split=split, **options)


def new_pair(env: DecPOMDPEnv, seed: int) -> Pair:
    """Return a caller and a planner with models of their own."""
    return {
        agent: tiny_causal_lm(
            "UDLR#.WG?+\n ",
            Sampling(max_new_tokens=8),
            width=64,
            layers=3,
            context=64,
            seed=2 * seed + place,
        )
        for place, agent in enumerate(env.possible_agents)
    }


def imitate(env: DecPOMDPEnv, team: Pair, seed: int) -> None:
    """Let each agent imitate the references of the training tasks."""
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    lessons = reference_demonstrations(env, starts, env.possible_agents)
    for place, (agent, policy) in enumerate(team.items()):
        texts = [(lesson[place].prompt, str(lesson[place].completion)) for lesson in lessons]
        _fit(policy, texts, stream(seed, "imitation", agent))


def _fit(policy: CausalLM, texts: list[tuple[str, str]], rng: np.random.Generator) -> None:
    """Fit a model to completions of prompts by cross-entropy on the completions and their ends."""
    model, tokenizer = policy.engine.model, policy.engine.tokenizer
    rows = [
        (p := policy.encoder.tokenize(prompt), [*p, *policy.encoder.plain(text), 0])
        for prompt, text in texts
    ]
    longest = max(len(row) for _, row in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    targets = torch.full((len(rows), longest), -100)
    for place, (prompt, row) in enumerate(rows):
        tokens[place, : len(row)] = torch.tensor(row)
        targets[place, len(prompt) : len(row)] = torch.tensor(row[len(prompt) :])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (1 - step / STEPS)
        batch = torch.from_numpy(rng.permutation(len(rows))[:LESSONS])
        logits = model(tokens[batch]).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets[batch][:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{tokenizer.__class__.__name__}: last loss {float(loss.detach()):.3f}", flush=True)


def reinforce(env: DecPOMDPEnv, team: Pair, seed: int) -> None:
    """Let the team learn with MAGRPO on training tasks."""
    options = LearnerOptions(learning_rate=3e-4, max_grad_norm=1.0)
    learner = Learner(dict(team), ALGORITHMS["magrpo"], options)
    rng = stream(seed, "reinforcement")
    for update in range(UPDATES):
        tasks = rng.choice(len(env.tasks.tasks), size=8, replace=False)
        starts = [Start(task_id=env.tasks.tasks[int(number)].task_id) for number in tasks]
        rollouts = collect_rollouts(
            env, dict(team), starts, group_size=8, rng=rng, options=RolloutOptions(plan="episodes")
        )
        metrics = learner.update(rollouts)
        if update % 10 == 9:
            print(
                f"update {update + 1}: reward {metrics.get('reward_mean', float('nan')):.3f}",
                flush=True,
            )


def main(folder: Path) -> None:
    """Train all seeds, swap the roles before and after reinforcement, and print the effects."""
    torch.set_num_threads(1)
    train, test = paths("train"), paths("test")
    teams: dict[str, Pair] = {}
    starts = [Start(task_id=task.task_id) for task in test.tasks.tasks]
    for seed in range(SEEDS):
        begin = time.process_time()
        team = new_pair(train, seed)
        imitate(train, team, seed)
        report(
            f"seed-{seed}, imitation",
            swap_roles(
                test,
                {f"seed-{seed}": dict(team)},
                starts,
                folder=folder / f"imitation-{seed}",
                samples=2,
            ),
        )
        reinforce(train, team, seed)
        teams[f"seed-{seed}"] = team
        print(f"seed {seed}: {time.process_time() - begin:.0f} s of processor time", flush=True)
    pairs = {name: dict(team) for name, team in teams.items()}
    report("all seeds", swap_roles(test, pairs, starts, folder=folder / "reinforcement", samples=2))


def report(title: str, found: RoleSwap) -> None:
    """Print the effects of a role swap."""
    for measure, effect in found.effects.items():
        print(title, measure, effect.own, effect.swapped, effect.difference, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
