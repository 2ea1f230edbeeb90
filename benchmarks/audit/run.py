"""Audit of the rewards of a data set: `llm-decpomdp check data`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from llm_decpomdp.benchmarks.audit.checks import (
    APART,
    ProgramTask,
    about_gradings,
    about_idler,
    about_text,
    idlers,
    inside,
    some,
    why,
)
from llm_decpomdp.benchmarks.audit.examples import contradictions, examples_as_tests
from llm_decpomdp.benchmarks.audit.grading import (
    AuditedReward,
    Grading,
    Subject,
    grade,
    read_programs,
    reference,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, writing
from llm_decpomdp.benchmarks.runs.data import load_env
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import REFERENCE, Remark
from llm_decpomdp.envs.sandbox import Limits, Sandbox, SandboxError
from llm_decpomdp.envs.sandbox.sandbox import available_cores
from llm_decpomdp.registry import make
from llm_decpomdp.utils.text import plain


@dataclass(frozen=True)
class Audit:
    """Remarks on a data set."""

    env_id: str
    data: Mapping[str, Any]
    """Identity of the data, see `TaskSet.describe`."""
    repeats: int
    references: int
    programs: int
    """Joint completions that were graded, references among them."""
    remarks: tuple[Remark, ...]
    """Unexplained faults first, then explained faults, then notes."""

    @property
    def faults(self) -> int:
        """Number of faults without a known issue."""
        return sum(remark.fault and not remark.explained for remark in self.remarks)

    @property
    def healthy(self) -> bool:
        """True if known issues explain every fault."""
        return not self.faults

    @property
    def summary(self) -> str:
        """Line that sums up the audit."""
        explained = [remark for remark in self.remarks if remark.explained]
        notes = sum(not remark.fault for remark in self.remarks)
        issues = len(self.data["known_issues"])
        left_out = len(self.data["excluded"])
        return (
            f"{self.env_id}, {self.data['split']} of {self.data['source']}: {self.data['rows'] + left_out} rows, "
            f"{self.data['rows']} checked, {left_out} excluded with a reason; {self.references} references, "
            f"{self.programs} programs graded {self.repeats} times each; {issues} rows with known issues, "
            f"which explain {len(explained)} faults; {self.faults} unexplained faults, {notes} notes"
        )


class Plan(NamedTuple):
    """Arguments of an audit, and its environment."""

    env_id: str
    env: DecPOMDPEnv
    repeats: int
    limits: Limits
    episodes: Path | None = None


def audit(
    env_id: str,
    source: str = "auto",
    split: str | None = None,
    episodes: Path | None = None,
    repeats: int = 3,
    limits: Limits | None = None,
) -> Audit:
    """Check every row of the data of an environment.

    Shows a progress bar on stderr.

    Args:
        env_id: A registered environment.
        source: Where the problems come from.
        split: Split of the problems; by default that of the environment.
        episodes: `episodes.jsonl` of a run folder, whose joint completions are graded too.
        repeats: Number of gradings of each program.
        limits: Resources of each program; by default those of training.

    Raises:
        ConfigError: If an argument or a row is not valid.
        RunError: If the data or the sandbox fail.
    """
    if repeats < 2:
        raise ConfigError(f"repeats must be at least 2 to show a difference, got {repeats}")
    env = load_env(env_id, source, split)  # a wrong source is an error before the grading
    data = env.tasks
    plan = Plan(env_id, env, repeats, limits or Limits(), episodes)
    try:
        if all(isinstance(task, ProgramTask) for task in data.tasks):
            result = _audit_programs(plan)
        elif isinstance(env.reward, AuditedReward):
            result = _audit_rows(plan, env.reward)
        else:
            raise ConfigError(f"{env_id} has nothing to audit: its tasks have no tests")
    except SandboxError as error:
        raise RunError(str(error)) from error
    left_out = (Remark("excluded", name, "", reason) for name, reason in data.excluded.items())
    issues = data.known_issues
    remarks = [
        replace(remark, explained=issues.get(remark.task_id, "") if remark.fault else "")
        for remark in (*result.remarks, *left_out)
    ]
    remarks.sort(key=lambda remark: (not remark.fault, bool(remark.explained)))
    return replace(result, remarks=tuple(remarks))


def _audit_programs(plan: Plan) -> Audit:
    # Programs are graded several times, with other hashes of strings and another state of `random` each time.
    env_id, tasks = plan.env_id, plan.env.tasks.tasks
    teams = (make(env_id).roles, make(env_id, num_agents=1).roles)
    answers = [Subject(task, reference(task, teams), REFERENCE) for task in tasks]
    answers = [subject for subject in answers if subject.completions]
    subjects = list(answers)
    if plan.episodes is not None:
        subjects += read_programs(plan.episodes, env_id, plan.env.tasks)
    remarks = [remark for task in tasks for remark in (*about_text(task), *contradictions(task))]
    if isinstance(plan.env.reward, AuditedReward):
        remarks += plan.env.reward.audit(plan.env)
    contradicted = {remark.task_id for remark in remarks if remark.kind == "example"}
    rounds = []
    for seed in range(plan.repeats):
        # The seed sets the hashes of strings and `random`, which differ between processes.
        rounds.append(_grade_all(plan, subjects, f"seed {seed}", seed))
        # The pool of workers of this seed is not used again.
        Sandbox(seed=seed).close()
    gradings = list(zip(*rounds, strict=True))
    for subject, row in zip(subjects, gradings, strict=True):
        remarks += about_gradings(subject, row)
    # The answers are the first subjects; programs of episodes follow.
    failed = [answer for answer, row in zip(answers, gradings, strict=False) if _fails_clearly(row)]
    remarks += _about_sharing(plan, failed)
    (alone,) = teams[1]
    idle = [subject for task in tasks for subject in idlers(task, alone)]
    for subject, grading in zip(
        idle, _grade_all(plan, idle, "programs that do no work"), strict=True
    ):
        remarks += about_idler(subject, grading)
    remarks += _about_examples(
        plan, [answer for answer in answers if answer.task.task_id not in contradicted]
    )
    count = len(answers), len(subjects)
    return Audit(env_id, plan.env.tasks.describe(), plan.repeats, *count, tuple(remarks))


def _fails_clearly(gradings: Iterable[Grading]) -> bool:
    """Return True if a program never passes, and not because time ran out."""
    gradings = list(gradings)
    outcomes = [outcome.status for grading in gradings for outcome in grading.tests]
    # A program that is only slow would also be slow in one process.
    return not any(grading.verdict.solved for grading in gradings) and "timeout" not in outcomes


def _about_sharing(plan: Plan, failed: Iterable[Subject]) -> list[Remark]:
    """Return remarks on references that pass only if the tests run in their process."""
    sharing = [
        replace(subject, task=task)
        for subject in failed
        if (task := inside(subject.task)) is not None
    ]
    gradings = _grade_all(plan, sharing, "tests that share a process")
    return [
        Remark("apart", subject.task.task_id, REFERENCE, APART, fault=True)
        for subject, grading in zip(sharing, gradings, strict=True)
        if grading.verdict.solved
    ]


def _about_examples(plan: Plan, answers: Iterable[Subject]) -> list[Remark]:
    """Return remarks on examples that the references fail and that no test contradicts."""
    posed = [(subject, examples_as_tests(subject.task)) for subject in answers]
    subjects = [replace(subject, task=task) for subject, task in posed if task is not None]
    remarks = []
    for subject, grading in zip(subjects, _grade_all(plan, subjects, "examples"), strict=True):
        failed = [why(outcome) for outcome in grading.tests if not outcome.passed]
        if failed:
            remarks.append(Remark("example", subject.task.task_id, REFERENCE, some(failed)))
    return remarks


def _audit_rows(plan: Plan, reward: AuditedReward) -> Audit:
    if plan.episodes is not None:
        raise ConfigError(f"{plan.env_id} has no programs to grade: leave out the episodes")
    complete = sum(
        set(plan.env.possible_agents) <= set(task.references) for task in plan.env.tasks.tasks
    )
    remarks = tuple(reward.audit(plan.env))
    return Audit(plan.env_id, plan.env.tasks.describe(), plan.repeats, complete, 0, remarks)


def _grade_all(plan: Plan, subjects: Sequence[Subject], what: str, seed: int = 0) -> list[Grading]:
    work = partial(grade, plan.env_id, seed=seed, limits=plan.limits)
    console = Console(stderr=True)
    # The bar is on stderr, as stdout may be JSON.
    options: Any = {"console": console, "transient": True, "disable": not console.is_terminal}
    # Threads suffice, as programs run in processes of the sandbox.
    with ThreadPoolExecutor(available_cores()) as threads:
        return list(track(threads.map(work, subjects), what, len(subjects), **options))


def to_json(result: Audit) -> str:
    """Return the result as a JSON object, with `healthy` and `summary`."""
    derived = {"healthy": result.healthy, "summary": result.summary}
    return json.dumps({**asdict(result), **derived}, indent=2)


def save(result: Audit, path: Path) -> None:
    """Write the JSON object to a file.

    Raises:
        RunError: If it cannot be written.
    """
    with writing(path):
        path.write_text(to_json(result) + "\n", encoding="utf-8")


def table(result: Audit) -> Table:
    """Return the remarks for a terminal."""
    grid = Table("", "kind", "task", "what", title=f"audit of {result.env_id}")
    for remark in result.remarks:
        mark = "known" if remark.explained else "[red]fault[/red]" if remark.fault else "note"
        text = f"{remark.program}: {remark.text}" if remark.program else remark.text
        text += f" (known: {remark.explained})" if remark.explained else ""
        grid.add_row(mark, *map(plain, (remark.kind, remark.task_id, text)))
    return grid
