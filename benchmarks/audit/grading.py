"""Joint completions, and their grading by the reward of the environment in another sandbox."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import Protocol, runtime_checkable

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.runs.results import task_name
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import Remark
from llm_decpomdp.envs.sandbox import Execution, Limits, Outcome, Program, Sandbox, Tests
from llm_decpomdp.interfaces import Reward, Role, Task, TaskSet, Verdict
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import DamagedFile, numbered_rows


@runtime_checkable
class SandboxReward(Protocol):
    """Reward that grades programs in a sandbox."""

    def copy_with_sandbox(self, sandbox: Sandbox) -> Reward:
        """Return the reward with another sandbox."""
        ...


@runtime_checkable
class AuditedReward(Protocol):
    """Reward with its own audit of rows."""

    def audit(self, env: DecPOMDPEnv) -> Iterator[Remark]:
        """Yield remarks on the rows of an environment's data."""
        ...


@dataclass(frozen=True)
class Subject:
    """Joint completion to grade."""

    task: Task
    completions: Mapping[str, str]
    """By agent, for a team of that size."""
    name: str
    """Description such as `reference`, or a place in a file."""


@dataclass(frozen=True)
class Grading:
    """Verdict on a subject."""

    seed: int
    verdict: Verdict
    by_clock: bool
    """True if the clock, not the CPU time, caused a time-out."""

    @property
    def tests(self) -> tuple[Outcome, ...]:
        """The outcomes of the task's tests."""
        tests: tuple[Outcome, ...] = self.verdict.analysis.tests
        return tests


class _Recorder(Sandbox):
    """Sandbox that records whether the clock has decided a verdict."""

    def __init__(self, limits: Limits, seed: int) -> None:
        super().__init__(limits, seed=seed)
        self.by_clock: list[bool] = []

    def run(self, program: Program, tests: Tests, limits: Limits | None = None) -> Execution:
        execution = super().run(program, tests, limits)
        self.by_clock.append(execution.wall_decided)
        return execution

    def copy_with_packages(self, packages: Collection[str]) -> Sandbox:
        """Return a sandbox with these packages that adds to the same record."""
        # A shallow copy, so that both append to the list that `grade` reads.
        sandbox = copy.copy(self)
        sandbox.packages = super().copy_with_packages(packages).packages
        return sandbox


def grade(env_id: str, subject: Subject, seed: int, limits: Limits) -> Grading:
    """Grade a joint completion with the reward of a team of its size.

    Args:
        env_id: The environment.
        subject: The joint completion.
        seed: Seed of the hashes of strings and of `random` in the programs.
        limits: Resources of each program, unless the environment has its own limits.
    """
    sandbox = _Recorder(limits, seed)
    env = make(env_id, num_agents=len(subject.completions))
    if not isinstance(env.reward, SandboxReward):
        raise ConfigError(
            f"cannot audit {type(env.reward).__name__}, which has no method copy_with_sandbox: audit an "
            "environment with the same tasks, such as coophumaneval-v0, or add the method as in CodeReward"
        )
    verdict = env.reward.copy_with_sandbox(sandbox)(subject.task, subject.completions)
    return Grading(seed, verdict, any(sandbox.by_clock))


def reference(task: Task, teams: Sequence[Sequence[Role]]) -> dict[str, str]:
    """Return the references for the first team with a reference of every agent; empty if there is none."""
    for roles in teams:
        texts = {role.agent: role.reference(task) for role in roles}
        answers = {agent: text for agent, text in texts.items() if text is not None}
        if len(answers) == len(texts):
            return answers
    return {}


def read_programs(path: Path, env_id: str, data: TaskSet) -> Iterator[Subject]:
    """Yield the different joint completions of a run.

    Raises:
        ConfigError: If the file does not exist or has other content.
    """
    if not path.is_file():
        raise ConfigError(f"no file {path}: give the episodes.jsonl of a run folder")
    keys = set()
    try:
        for line, row in numbered_rows(path):
            task = data.find(task_name(row))
            for place, completions in _samples(row, env_id):
                # Runs repeat many completions, such as empty ones.
                key = (task.task_id, *sorted(completions.items()))
                if key not in keys:
                    keys.add(key)
                    yield Subject(task, completions, f"{path.name} line {line}, {place}")
    except DamagedFile:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} has no episodes of these agents: {error}") from None
    except KeyError as error:
        raise ConfigError(
            f"{path}: {error.args[0]}. Use the --source and --split of the run"
        ) from None


def _samples(row: Mapping[str, Any], env_id: str) -> Iterator[tuple[str, dict[str, str]]]:
    for number, turn in enumerate(row["groups"], 1):
        texts: dict[str, list[str]] = turn["completions"]
        team = make(env_id, num_agents=len(texts)).possible_agents
        if set(texts) != set(team):
            raise ValueError(f"expected {' and '.join(team)}, got {' and '.join(texts)}")
        for sample, joint in enumerate(zip(*texts.values(), strict=True), 1):
            yield f"turn {number}, sample {sample}", dict(zip(texts, joint, strict=True))
