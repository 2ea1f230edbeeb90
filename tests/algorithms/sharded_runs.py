"""Runs of a team whose weights lie in the shards of two processes.

python -m tests.algorithms.sharded_runs FOLDER [further]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed

from llm_decpomdp.agents.adapters import add_adapters
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.models import sharded
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.engine import ModelEngine
from llm_decpomdp.agents.models.sharded import shard_team, unshard_team
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.agents.saved_team import save_team
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning import shards
from llm_decpomdp.algorithms.learning.base_learner import PolicyOptimizer
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.passes import LossItem
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.training.trainer import Trainer
from llm_decpomdp.policy import Completion
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.runs import ALIKE_STARTS, UNEVEN, build, fail, on_call, together

AGENTS = ("x", "y", "z")
SAMPLING = Sampling(max_new_tokens=3, temperature=0.8)
LORA = {"r": 2, "target_modules": "all-linear", "init_lora_weights": False}

Team = dict[str, CausalLM]


def make_team(compute_dtype: str = "float32", history: str = "none") -> Team:
    """`x` with weights of its own; `y` and `z` with adapters on one model, which computes activations twice."""
    team = {"x": tiny_causal_lm("ab", SAMPLING, width=16, seed=1, history=history)}
    if compute_dtype != "float32":
        own = team["x"].engine
        team["x"].engine = ModelEngine(own.model, own.tokenizer, compute_dtype=compute_dtype)
    below = tiny_causal_lm("ab", SAMPLING, width=16, layers=1, seed=2, history=history)
    model = add_adapters(
        below.model.requires_grad_(False),
        {"policy_y": LORA, "policy_z": LORA},
        {"policy_y": 3, "policy_z": 4},
    )
    engine = ModelEngine(
        model, below.tokenizer, compute_dtype=compute_dtype, gradient_checkpointing=True
    )
    for seed, agent in enumerate("yz"):
        team[agent] = CausalLM(engine, SAMPLING, adapter=f"policy_{agent}", seed=seed)
        team[agent].encoder = below.encoder
    return team


def save_stored(folder: Path) -> None:
    """Save the model of `x` in several files."""
    team = make_team()
    team["x"].model.save_pretrained(folder / "x", max_shard_size="4KB")
    team["x"].tokenizer.save_pretrained(folder / "x")


def load_stored(folder: Path, hollow: bool = True) -> Team:
    """`x` from its files, and `y` with a new adapter on the same model."""
    shared = {"name": str(folder / "x"), "max_new_tokens": 3, "temperature": 0.8}
    specs = {
        "x": PolicySpec(**shared, compute_dtype="float32"),
        "y": PolicySpec(**shared, compute_dtype="float32", lora=LORA),
    }
    return load_team({"x": "x", "y": "y"}, specs, seed=5, hollow=hollow)  # type: ignore[return-value]


def completions() -> list[Completion]:
    """Four answers, of which two begin alike."""
    return [Completion("", tokens) for tokens in ((1, 2, 0), (1, 2, 2, 1, 0), (2, 0), (2, 2, 1))]


def scored(team: Team, *parts: Sequence[Completion]) -> dict[str, tuple[list[torch.Tensor], float]]:
    """Each agent's log-probabilities of the answers of each part, and the norm of the gradient of their sum."""
    results = {}
    for agent, policy in team.items():
        values = []
        for rows in parts:
            log_probs, mask = policy.log_probs("ab", rows)
            weights = torch.arange(1.0, 1 + mask.shape[1])
            (log_probs * mask * weights).sum().backward()
            values.append((log_probs * mask).detach())
        optimizer = PolicyOptimizer(list(policy.parameters()), 0.0, 0.0)
        processes.sum_gradients(optimizer.parameters)
        results[agent] = values, optimizer.clip(None)
        optimizer.clear()
    return results


def share(rows: Sequence[Completion], rank: int) -> list[Completion]:
    """One answer for the first process, and three for the second."""
    return list(rows[:1] if rank == 0 else rows[1:])


LEARNERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "reference": {
        "kl": {"coefficient": 0.1},
        "num_iterations": 2,
        "max_grad_norm": 0.1,
        "weight_decay": 0.01,
    },
}


def sampled() -> list[Rollout]:
    """Four rollouts, the same ones each time."""
    starts, rng = [Start(seed=n) for n in range(4)], np.random.default_rng(0)
    return collect_rollouts(EchoEnv(1, AGENTS), make_team(), starts, group_size=4, rng=rng)


def silent(rollout: Rollout) -> Rollout:
    """The rollout with equal rewards."""
    groups = (replace(group, rewards=(0.0,) * len(group.rewards)) for group in rollout.groups)
    return replace(rollout, groups=tuple(groups))


def batches() -> list[list[Rollout]]:
    """Three updates: one that teaches the first process alone, one for it alone, and one that teaches nobody."""
    rollouts = sampled()
    one_sided = [silent(one) if n % 2 else one for n, one in enumerate(rollouts)]
    return [one_sided, rollouts[:1], [silent(one) for one in rollouts]]


def make_learner(team: Team, **options: Any) -> Learner:
    """A learner from returns."""
    options = {"learning_rate": 0.01, **options}
    return Learner(team, ALGORITHMS["magrpo"], LearnerOptions(**options))


def learned(team: Team, updates: Sequence[Sequence[Rollout]], **options: Any) -> dict[str, Any]:
    """The metrics of some updates, and the weights after them; `team` has whole weights then."""
    learner = make_learner(team, **options)
    metrics = [learner.update(rollouts) for rollouts in updates]
    unshard_team(team)
    return {"metrics": metrics, "weights": weights_of(team)}


def weights_of(team: Team) -> dict[str, list[torch.Tensor]]:
    return {agent: [w.detach() for w in policy.parameters()] for agent, policy in team.items()}


RUN: dict[str, Any] = {
    "rollout_batch_size": 1,
    "max_resample_rounds": 1,
    "problems": ALIKE_STARTS,
    "eval_starts": ALIKE_STARTS[:3],
    "group_size": 2,
    "eval_every": 2,
    "keep_best": True,
    "checkpoint_every": 1,
    "keep_checkpoints": 10,
    "record_tokens": True,
    "learner": {"learning_rate": 0.003},
}
"""Options of runs that sample the same in any number of processes, as long as their weights are nearly equal."""


def make_run(folder: Path, updates: int = 3, shards: int = 1, **options: Any) -> Trainer:
    team = make_team(options.pop("compute_dtype", "float32"), options.pop("history", "none"))
    shard_team(team, shards, None, options.pop("gathers", True))
    options = {"env": EchoEnv(1, AGENTS), **RUN, **options}
    return build(folder, UNEVEN[:updates], team=team, **options)


def make_dialogues(folder: Path, shards: int = 1, gathers: bool = True) -> Trainer:
    """A run of two turns whose agents read the first in the second."""
    return make_run(folder, 2, shards, env=EchoEnv(2, AGENTS), history="chat", gathers=gathers)


FURTHER: dict[str, dict[str, Any]] = {
    "lagged": {
        "max_async_level": 1,
        "learner": {"learning_rate": 0.003, "importance_sampling": "truncate"},
    },
    "rounded": {"compute_dtype": "bfloat16"},
}
"""Options of runs that are compared more seldom."""


def work_further(folder: Path) -> None:
    """Do the work of one of the two processes in the runs of `FURTHER`."""
    torch.set_num_threads(1)
    processes.initialize(10)
    here = folder / f"process_{processes.rank()}"
    here.mkdir()
    team = make_team("bfloat16")
    shard_team(team, 2)
    torch.save(scored(team, share(completions(), processes.rank())), here / "rounded.pt")
    for name, options in FURTHER.items():
        make_run(folder / name, shards=2, **options).run_updates()
        stopped = make_run(folder / f"{name} in parts", shards=2, **options)
        stopped.learner.accumulate = on_call(2, stopped.learner.accumulate, fail)  # type: ignore[method-assign]
        with suppress(RuntimeError):
            stopped.run_updates()
        again = make_run(folder / f"{name} in parts", shards=2, **options)
        assert again.resume() == 2
        again.run_updates()
    os._exit(0)


def work(folder: Path) -> None:
    """Do the work of one of the two processes."""
    torch.set_num_threads(1)
    processes.initialize(10)
    here = folder / f"process_{processes.rank()}"
    here.mkdir()
    team = make_team()
    shard_team(team, 2)
    mine = share(completions(), processes.rank())
    torch.save(scored(team, mine), here / "scored.pt")
    sharded.ROW_TOKENS, whole_rows = 6, sharded.ROW_TOKENS
    torch.save(scored(team, mine), here / "in_parts.pt")
    sharded.ROW_TOKENS = whole_rows
    stored = load_stored(folder)
    shard_team(stored, 2)
    torch.save(scored(stored, mine), here / "stored.pt")
    for name, options in LEARNERS.items():
        team = make_team()
        shard_team(team, 2, reduce_once=name == "plain")
        updates = [processes.shard(batch) for batch in batches()]
        torch.save(learned(team, updates, **options), here / f"{name}.pt")
    make_run(folder / "run", shards=2).run_updates()
    make_dialogues(folder / "dialogues", shards=2).run_updates()
    make_run(folder / "run_in_shards", shards=2, gathers=False).run_updates()
    make_dialogues(folder / "dialogues_in_shards", shards=2, gathers=False).run_updates()
    for name in ("parts", "one"):  # of which the second was begun by one process
        if name == "parts":
            make_run(folder / name, 2, shards=2).run_updates()
        run = make_run(folder / name, shards=2)
        run.resume()
        run.run_updates()
        unshard_team(run.team)
        if processes.rank() == 0:
            save_team(run.team, folder / f"team_of_{name}")
    leave_alone(here)


def leave_alone(here: Path) -> None:
    """Learn in the first process alone, as if silent groups cost no pass, once the other has gone; both end here.

    It fails if it needs the other, where it would wait for one that is busy elsewhere.
    """
    team = make_team()
    shard_team(team, 2)
    learner = make_learner(team)

    def own(items: Any, policies: Any) -> list[LossItem]:
        return list(items[:1]) if processes.rank() == 0 else []

    shards.align_processes = own  # type: ignore[assignment]
    if processes.rank() == 1:
        (here / "process.txt").write_text(str(os.getpid()))
        distributed.barrier()
        os._exit(0)
    distributed.barrier()
    other = Path("/proc", (here.parent / "process_1/process.txt").read_text(), "stat")
    while other.exists() and ") Z " not in other.read_text():
        time.sleep(0.01)
    try:
        learner.accumulate(processes.shard(batches()[0]))
        outcome = "done"
    except RuntimeError as error:
        outcome = f"needs the other: {error}"
    (here / "alone.txt").write_text(outcome)
    os._exit(0)


if __name__ == "__main__":
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))]).step()  # imports much
    target, task = Path(sys.argv[1]), work_further if "further" in sys.argv else work
    together(lambda: task(target))
