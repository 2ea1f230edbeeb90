"""Grading of joint completions by the rewards of their environments, in sandboxes of one's own choice."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.envs.bugfix.execution import Runner
from llm_decpomdp.envs.bugfix.reward import RepairReward
from llm_decpomdp.envs.classeval.reward import ClassReward
from llm_decpomdp.envs.coding.reward import CodeReward
from llm_decpomdp.envs.sandbox import Execution, Limits, Outcome, Program, Sandbox, Tests
from llm_decpomdp.episode import Verdict
from llm_decpomdp.parts import Reward, Role
from llm_decpomdp.registry import make
from llm_decpomdp.tasks import Task


@dataclass(frozen=True)
class Subject:
    """Joint completion to grade."""

    task: Task
    completions: Mapping[str, str]
    """By agent, for a team of so many."""
    name: str
    """Description such as `reference`, or a place in a file."""


@dataclass(frozen=True)
class Grading:
    """Verdict on a subject."""

    seed: int
    verdict: Verdict
    by_clock: bool
    """True if a time-out came from the clock on the wall."""

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

    def offering(self, packages: Collection[str]) -> Sandbox:
        """Return a sandbox with these packages that notes the clock in the same place."""
        sandbox = copy.copy(self)
        sandbox.packages = super().offering(packages).packages
        return sandbox


def grade(env_id: str, subject: Subject, seed: int, limits: Limits) -> Grading:
    """Grade a joint completion, with the reward that its team would have earned.

    Args:
        env_id: The environment.
        subject: The joint completion.
        seed: Seed of the hashes of strings and of `random` in the programs.
        limits: Resources of each program, where the environment has no limits of its own.
    """
    sandbox = _Recorder(limits, seed)
    env = make(env_id, num_agents=len(subject.completions))
    verdict = _in_sandbox(env.reward, sandbox)(subject.task, subject.completions)
    return Grading(seed, verdict, any(sandbox.by_clock))


def _in_sandbox(reward: Reward, sandbox: Sandbox) -> Reward:
    if isinstance(reward, RepairReward):
        return replace(reward, runner=Runner(sandbox))
    if isinstance(reward, CodeReward | ClassReward):
        return replace(reward, sandbox=sandbox)
    raise ConfigError(
        f"the audit grades programs several times in sandboxes of its own, and cannot give one to the reward "
        f"{type(reward).__name__}: audit the environment whose tasks it takes, such as coophumaneval-v0, or "
        "derive the reward from CodeReward"
    )


def reference(task: Task, teams: Sequence[Sequence[Role]]) -> dict[str, str]:
    """Return the data's completions for the first team whose agents all have one; empty where there is none."""
    for roles in teams:
        texts = {role.agent: role.reference(task) for role in roles}
        answers = {agent: text for agent, text in texts.items() if text is not None}
        if len(answers) == len(texts):
            return answers
    return {}
