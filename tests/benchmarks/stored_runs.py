"""Folders with episodes that scripted policies have played, in the form of runs and evaluations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from llm_decpomdp import Completion, DecPOMDPEnv, Verdict, answers
from llm_decpomdp.agents.scripted import Scripted
from llm_decpomdp.algorithms import RolloutOptions, Start, collect_rollouts
from llm_decpomdp.algorithms.training.metrics import episode_row
from llm_decpomdp.benchmarks.runs.data import load_envs
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.interfaces import Reward
from llm_decpomdp.utils.storage import RunFolder, append_json_line

SMALL = [
    "env.id=coophumaneval-v0",
    "env.num_turns=2",
    "dataset.source=bundled",
    "dataset.train_split=test[2:4]",
    "dataset.eval_split=test[:2]",
]
"""Two tasks to train and two to evaluate, two turns of two agents."""


class Mixed(Scripted):
    """Gives in turn the data's answer, nothing, and texts of its own."""

    def __init__(self, *texts: str | None) -> None:
        self.texts = texts
        """`None` for the data's answer."""
        self.played = 0

    def act(self, prompt: str) -> str:
        raise AssertionError("it is asked with generate_with_envs")

    def generate_with_envs(
        self, envs: Sequence[Any], agents: Sequence[str], num_samples: int = 1
    ) -> list[list[Completion]]:
        """The next texts, whatever the agents are."""
        return [
            [Completion(self._next(env, agent)) for _ in range(num_samples)]
            for env, agent in zip(envs, agents, strict=True)
        ]

    def _next(self, env: Any, agent: str) -> str:
        self.played += 1
        text = self.texts[(self.played - 1) % len(self.texts)]
        return str(answers(env).reference(agent)) if text is None else text


@dataclass(frozen=True)
class Counted:
    """A reward that counts how often it judges what."""

    reward: Reward
    calls: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def components(self) -> Sequence[str]:
        return self.reward.components

    def __call__(self, task: Any, completions: Mapping[str, str]) -> Verdict:
        self.calls.append(dict(completions))
        return self.reward(task, completions)


def run_of(
    folder: Path,
    plan: str = "chain",
    *,
    overrides: Sequence[str] = (),
    joint_mode: str = "aligned",
    group_size: int = 2,
) -> RunFolder:
    """A run: its two training tasks played by a plan, then its two evaluation tasks."""
    config = load_config(overrides=[*SMALL, *overrides])
    train, held_out = load_envs(config)
    run = RunFolder(folder)
    run.config.write_text(config.to_yaml(), encoding="utf-8")
    data = {"train": train.metadata["data"], "eval": held_out.metadata["data"]}
    run.write_manifest({"environment": config.env.id, "data": data, "seed": 0})
    rows = [(train, "train", plan, group_size), (held_out, "eval", "chain", 1)]
    for env, phase, how, size in rows:
        for row in played(env, how, size, joint_mode, phase):
            append_json_line(run.episodes, row)
    return run


def played(
    env: DecPOMDPEnv,
    plan: str = "chain",
    group_size: int = 2,
    joint_mode: str = "aligned",
    phase: str = "train",
    update: int = 1,
) -> list[dict[str, Any]]:
    """Every task of an environment, played by two who know the answer now and then."""
    helper, entry = env.possible_agents
    team = {helper: Mixed(None, "", "def x(:"), entry: Mixed(None, "def main_0(): pass")}
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    options, rng = RolloutOptions(mode=plan, joint_mode=joint_mode), np.random.default_rng(0)
    found = collect_rollouts(env, team, starts, options, group_size=group_size, rng=rng)
    return [episode_row(rollout, update, phase) for rollout in found]


def change(folder: Path, line: int, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit a row of `episodes.jsonl`, counted from 1."""
    path = folder / "episodes.jsonl"
    rows = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    edit(rows[line - 1])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
