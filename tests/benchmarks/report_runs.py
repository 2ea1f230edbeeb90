"""Run folders that are written by the trainer's own functions, without a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any
from unittest import mock

from llm_decpomdp import Completion, Episode, Turn, Verdict
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.training.metrics import episode_row, evaluation_metrics, reward_metrics
from llm_decpomdp.benchmarks.report import charts as report_charts
from llm_decpomdp.benchmarks.report import write_report
from llm_decpomdp.envs.program_reward import test_details
from llm_decpomdp.envs.sandbox.program import Outcome
from llm_decpomdp.utils.storage import RunFolder, append_json_line

HOSTILE = "<script>alert('x')</script> & <img src=x onerror=alert(1)>"
DATA = {
    "name": "coophumaneval",
    "source": "bundled",
    "split": "test[:8]",
    "revision": "",
    "rows": 8,
    "stand_in": False,
    "fingerprint": "4d1377645d4d5900",
}
MANIFEST = {
    "created": "2026-03-01T12:00:00+00:00",
    "environment": "coophumaneval-v0",
    "algorithm": "magrpo",
    "model": "smollm2-135m-instruct",
    "seed": 7,
    "data": {"train": DATA, "eval": DATA},
    "packages": {"numpy": "2.0", "peft": None},
    "git": {"commit": "7977d54", "dirty": True},
}


def chain(
    task: str,
    rewards: list[list[float]],
    agents: tuple[str, ...] = ("aux_0", "main_0"),
    components: Mapping[str, float] | None = None,
) -> Rollout:
    """A chain with a list of rewards for each turn, split into components by their shares."""
    shares = {"tests": 0.75, "syntax": 0.25} if components is None else components
    turns: list[Any] = []
    record: list[Any] = []
    for number, group in enumerate(rewards, 1):
        prompts = {agent: f"{agent}, solve {task}, turn {number}" for agent in agents}
        infos = [
            {"solved": float(r >= 4), **{f"reward/{name}": r * s for name, s in shares.items()}}
            for r in group
        ]
        texts = {
            agent: [f"def {agent}():\n    return {r}  # {HOSTILE}" for r in group]
            for agent in agents
        }
        completions = {a: tuple(Completion(t, (1, 2)) for t in texts[a]) for a in agents}
        joint = tuple((g, g) for g in range(len(group)))
        parent = Parent(number - 2, len(group) - 1) if turns else None
        turns.append(
            Group(
                number - 1,
                parent,
                prompts,
                completions,
                joint,
                tuple(group),
                tuple(infos),
                chosen=len(group) - 1,
            )
        )
        tests = (
            Outcome("assert f(1) == 2", True),
            Outcome("assert f('<i>') == 3", False, "error", "NameError: x", "main_0", 2),
        )
        points = {name: group[-1] * share for name, share in shares.items()}
        last = {agent: texts[agent][-1] for agent in agents}
        record.append(Turn(prompts, last, Verdict(points, False, test_details(tests))))
    final = Episode(task, tuple(record)).to_json()
    return Rollout(Start(task_id=task), tuple(turns), final)


def write(folder: RunFolder, update: int, kind: str, chains: list[Rollout]) -> None:
    times = {"sampling_seconds": 6.0, "stepping_seconds": 1.0, "learning_seconds": 3.0}
    if kind == "eval":
        row: dict[str, Any] = evaluation_metrics(chains)
    else:
        row = {**reward_metrics(chains), "tokens_per_second": 1234.0, **times}
    append_json_line(folder.metrics, {"update": update, "kind": kind, **row})
    for one in chains:
        append_json_line(folder.episodes, episode_row(one, update, kind))


def train(folder: RunFolder, updates: int, **options: Any) -> None:
    for update in range(1, updates + 1):
        rewards = [[0.5, 0.1 * update], [0.1 * update, 0.5]]
        write(folder, update, "train", [chain(f"train/{update}", rewards, **options)])


def evaluate(folder: RunFolder, update: int, rewards: list[float], **options: Any) -> None:
    chains = [chain(f"eval/{i}", [[r]], **options) for i, r in enumerate(rewards)]
    write(folder, update, "eval", chains)


def tree(task: str, rewards: list[float], next_rewards: list[list[float]]) -> Rollout:
    """A tree of two turns: one joint sample for each reward, and a group after each of them."""

    def group(turn: int, parent: Parent | None, values: list[float]) -> Group:
        texts = tuple(Completion(f"sample of {value}", (1,)) for value in values)
        return Group(
            turn,
            parent,
            {"main_0": f"turn {turn + 1} of {task}"},
            {"main_0": texts},
            tuple((g,) for g in range(len(values))),
            tuple(values),
            tuple({"solved": float(value >= 4)} for value in values),
        )

    groups = [group(0, None, rewards)]
    groups += [group(1, Parent(0, j), values) for j, values in enumerate(next_rewards)]
    return Rollout(Start(task_id=task), tuple(groups))


def finished(run: RunFolder, seed: int = 7, extra: float = 0.0) -> RunFolder:
    """A run of eight held-out tasks that all gain, the sixth the most, and `extra` more after training."""
    run.write_manifest({**MANIFEST, "seed": seed})
    text = f"algorithm:\n  name: magrpo\nseed: {seed}\noutput:\n  name: {run.path.name}\n"
    run.config.write_text(text, encoding="utf-8")
    evaluate(run, 0, [1.0, 0.5, 1.0, 0.5, 1.0, 0.5, 1.0, 0.5])
    train(run, 6)
    after = [2.0, 1.5, 2.0, 1.5, 2.1, 3.5, 2.0, 1.6]
    evaluate(run, 6, [reward + extra for reward in after])
    return run


def html(*folders: RunFolder, charts: bool = False) -> str:
    """The page, by default without the charts, whose drawing takes most of the time."""
    with nullcontext() if charts else mock.patch.object(report_charts, "_svg", lambda *_: ""):
        return write_report(*folders).read_text(encoding="utf-8")


def words(*folders: RunFolder) -> str:
    """The page as a reader sees it before its script runs, in one line."""
    hidden = r"<style>.*?</style>|<script.*?</script>"
    text = re.sub(hidden, " ", html(*folders), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text).replace("\u00a0", " "))
