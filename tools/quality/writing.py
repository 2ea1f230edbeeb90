"""Rewards for writing, by kind of text: `python -m tools.quality.writing`.

For each family and version a table in Markdown: for every kind of text the mean, deviation, least and greatest
reward, and in which share of the rows the reference earns more. v1 has a second table, of imperfect texts.
`--model` adds the first samples of a model.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Annotated

import typer

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import REFERENCE
from llm_decpomdp.envs.writing import grounded_reward, reward
from llm_decpomdp.envs.writing.audit import Texts
from llm_decpomdp.interfaces import Task
from llm_decpomdp.registry import make
from tools.quality.nonsense import imperfect, nonsense

GENRES = ("tldr", "arxiv")
VERSIONS = {"v0": reward.MAX_REWARD, "v1": grounded_reward.MAX_REWARD}
"""The greatest reward of each version."""

GOAL = 0.95
"""The share of rows in which v1 must rank the reference before each kind of degenerate text."""


@dataclass(frozen=True)
class RewardRow:
    """Rewards of one kind of text."""

    env: str
    texts: str
    mean: float
    deviation: float
    least: float
    most: float
    reference_first: float
    """Share of rows in which the reference earns more."""
    rows: int


def compare(
    env: DecPOMDPEnv,
    seed: int = 0,
    make_texts: Callable[[DecPOMDPEnv, int], Iterator[tuple[Task, dict[str, Texts]]]] = nonsense,
) -> Iterator[RewardRow]:
    """Grade the references and the degenerate or imperfect texts of every row."""
    earned: dict[str, list[float]] = {}
    for task, kinds in make_texts(env, seed):
        for kind, texts in kinds.items():
            earned.setdefault(kind, []).append(env.reward(task, texts).reward)
    for kind, rewards in earned.items():
        yield summarise(env.spec_id, kind, rewards, earned[REFERENCE])


def summarise(
    env: str, kind: str, rewards: Sequence[float], references: Sequence[float]
) -> RewardRow:
    """Return the line of a kind of texts, row by row beside the references."""
    first = [best > reward for best, reward in zip(references, rewards, strict=True)]
    return RewardRow(
        env, kind, fmean(rewards), pstdev(rewards), min(rewards), max(rewards), fmean(first), len(first)
    )  # fmt: skip


def sample(
    genre: str, source: str, model: str, rows: int, temperature: float, max_new_tokens: int
) -> list[dict[str, str]]:
    """Return the texts of a model as each agent, for the first rows of the data."""
    from llm_decpomdp.agents.inference.options import Sampling
    from llm_decpomdp.agents.loading import load_policy

    env = make(f"{genre}-v1", source=source, split="all")
    policy = load_policy(model, Sampling(temperature, max_new_tokens=max_new_tokens))
    prompts = [item for task in env.tasks.tasks[:rows] for item in env.mode.first(task).items()]
    answers = policy.generate([prompt for _, prompt in prompts])
    team = len(env.roles)
    texts = [(agent, group[0].text) for (agent, _), group in zip(prompts, answers, strict=True)]
    return [dict(texts[start : start + team]) for start in range(0, len(texts), team)]


def judge(env: DecPOMDPEnv, kind: str, samples: Sequence[dict[str, str]]) -> RewardRow:
    """Return the line of a model's samples."""
    tasks = env.tasks.tasks[: len(samples)]
    rewards = [env.reward(task, texts).reward for task, texts in zip(tasks, samples, strict=True)]
    references = [env.reward(task, task.references).reward for task in tasks]
    return summarise(env.spec_id, kind, rewards, references)


def table(lines: Sequence[RewardRow]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| texts | mean | sd | min | max | reference first | rows |"
    yield "|---|---|---|---|---|---|---|"
    for line in lines:
        first = "" if line.texts == REFERENCE else f"{line.reference_first:.0%}"
        yield (
            f"| {line.texts} | {_format(line.mean)} | {_format(line.deviation)} | {_format(line.least)} "
            f"| {_format(line.most)} "
            f"| {first} | {line.rows} |"
        )


def _format(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no -0.00


def main(
    source: Annotated[str, typer.Option(help="Where the rows come from.")] = "bundled",
    seed: Annotated[int, typer.Option(help="Seed of shuffled and random words.")] = 0,
    model: Annotated[str | None, typer.Option(help="A model whose samples are graded too.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows that it writes about.")] = 12,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest sample.")] = 256,
    file: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the numbers go, as JSON.")
    ] = Path("runs/writing_quality.json"),
) -> None:
    """Print what every kind of text earns."""
    logging.basicConfig(format="%(message)s")
    rewards: list[RewardRow] = []
    texts: dict[str, list[dict[str, str]]] = {}
    for genre in GENRES:
        if model is not None:
            for kind, temperature in ((f"{model}, greedy", 0.0), (f"{model}, T=0.8", 0.8)):
                texts[f"{genre}: {kind}"] = sample(
                    genre, source, model, rows, temperature, max_new_tokens
                )
        for version, most in VERSIONS.items():
            env = make(f"{genre}-{version}", source=source, split="all")
            lines = [*compare(env, seed)]
            for name, samples in texts.items():
                data, _, kind = name.partition(": ")
                lines += [judge(env, kind, samples)] if data == genre else []
            rewards += lines
            print(f"\n{env.spec_id}, at most {most:g}:\n", *table(lines), sep="\n")
            if version == "v1":
                print("\nImperfect texts:\n", *table([*compare(env, seed, imperfect)]), sep="\n")
    file.parent.mkdir(parents=True, exist_ok=True)
    numbers = {"lines": [asdict(line) for line in rewards], "samples": texts}
    file.write_text(json.dumps(numbers, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
