"""The programs in a run's `episodes.jsonl`, for the audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.audit.grading import Subject
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.runs.results import task_name
from llm_decpomdp.registry import make
from llm_decpomdp.tasks import TaskSet
from llm_decpomdp.utils.storage import read_json_lines


def programs_of(path: Path, env_id: str, data: TaskSet) -> Iterator[Subject]:
    """Yield the joint completions of a run, each different one once.

    Raises:
        ConfigError: If there is no such file, or it holds something else.
    """
    if not path.is_file():
        raise ConfigError(f"no file {path}: name the episodes.jsonl of a run folder")
    keys = set()
    try:
        for line, row in enumerate(read_json_lines(path), 1):
            task = data.find(task_name(row))
            for place, completions in _samples(row, env_id):
                key = (task.task_id, *sorted(completions.items()))
                if key not in keys:
                    keys.add(key)
                    yield Subject(task, completions, f"{path.name} line {line}, {place}")
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} holds no episodes of these agents: {error}") from None
    except KeyError as error:
        raise ConfigError(
            f"{path}: {error.args[0]}. Give the --source and --split of the run, and its episodes.jsonl"
        ) from None


def _samples(row: Mapping[str, Any], env_id: str) -> Iterator[tuple[str, dict[str, str]]]:
    for number, turn in enumerate(row["groups"], 1):
        texts: dict[str, list[str]] = turn["completions"]
        team = make(env_id, num_agents=len(texts)).possible_agents
        if set(texts) != set(team):
            raise ValueError(f"expected {' and '.join(team)}, got {' and '.join(texts)}")
        for sample, joint in enumerate(zip(*texts.values(), strict=True), 1):
            yield f"turn {number}, sample {sample}", dict(zip(texts, joint, strict=True))
