"""Evaluations that are played, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.utils.storage import read_json_lines


def starts_of(env: DecPOMDPEnv) -> list[Start]:
    return [Start(task_id=task.task_id) for task in env.tasks.tasks]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return list(read_json_lines(folder / "episodes.jsonl"))
