"""Demonstrations of a team that divides the work, from references or from programs of one agent.

The command is `llm-decpomdp demonstrations`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, writing
from llm_decpomdp.benchmarks.runs.data import load_env
from llm_decpomdp.benchmarks.runs.results import stored_rows
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.coding.division import (
    DividedReference,
    DivisionOptions,
    divide_reference,
    find_divisions,
)
from llm_decpomdp.envs.coding.roles import MainRole
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.sandbox import Sandbox, SandboxError
from llm_decpomdp.envs.source_code.function_extraction import KINDS
from llm_decpomdp.utils.storage import write_atomically
from llm_decpomdp.validation import unknown

BALANCED = 0.6
"""Balance from which on more of it makes a division no better, with `prefer_tail`."""


@dataclass(frozen=True)
class WrittenDemonstrations:
    """What was written."""

    path: Path
    problems: int
    """Problems of the split, without those that are left out."""
    left_out: int
    """Problems that are evaluated, by `without`."""
    divided: int
    """Problems with at least one division."""
    origins: Counter[str]
    """Number of divisions of each origin."""

    def lines(self) -> Iterator[str]:
        """Yield the result in words."""
        kinds = ", ".join(f"{name} {count}" for name, count in self.origins.most_common())
        share = f"{self.divided} of {self.problems} problems"
        yield f"{share} have a division whose tests are shared work"
        yield f"{self.origins.total()} divisions were written ({kinds or 'none'})"
        if self.left_out:
            yield f"{self.left_out} problems are left out, as they are evaluated"
        yield str(self.path)


def write_demonstrations(
    env_id: str,
    split: str,
    output: Path,
    *,
    source: str = "auto",
    without: Sequence[str] = (),
    min_shared: float = 0.5,
    first: str | None = None,
    same_parameters: bool = False,
    kinds: Sequence[str] = (),
    prefill: str = "",
    prefer_tail: bool = False,
    programs: Path | None = None,
    per_problem: int = 1,
) -> WrittenDemonstrations:
    """Write the prompts of two agents with the parts of divided programs, as JSON Lines for a warm start.

    Shows a progress bar on stderr.

    Args:
        env_id: An environment of a helper and an entry function.
        split: Its problems.
        output: The file. A line has `agent`, `prompt`, `completion`, `task_id`, `origin`, `balance` and `shared`.
        source: Where the problems come from.
        without: Environments that are evaluated, such as `coophumaneval-v0` or `mbpp-v0:test[:50]`. Their
            problems are left out, by text and by the name of the entry function.
        min_shared: Least share of the tests that are shared work.
        first: The agent that answers first, `aux_0` or `main_0`; the other one reads its answer, as with
            `env.order`. `None` if both answer at once.
        same_parameters: See `DivisionOptions`.
        kinds: See `DivisionOptions`.
        prefill: See `DivisionOptions`.
        prefer_tail: Prefer divisions whose entry function ends with `return aux(...)`, and avoid bodies of loops.
            By default those with most shared tests are preferred, then those whose helper does not only return
            a `range`, then the most balanced.
        programs: A run or an evaluation of one agent (`env.num_agents: 1`) on problems of the split. Its programs
            that pass all tests are divided instead of the references.
        per_problem: Most divisions of a problem, which have different entry functions.

    Raises:
        ConfigError: If an argument is wrong.
        RunError: If the sandbox fails.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(unknown("kind of division", kind, KINDS))
    options = DivisionOptions(same_parameters, kinds, prefill)
    env = load_env(env_id, source, split)
    if env.possible_agents != ["aux_0", "main_0"]:
        raise ConfigError(
            f"{env_id} has the agents {env.possible_agents}: demonstrations are of environments with aux_0 and "
            "main_0, such as mbpp-v0"
        )
    if first is not None:
        if first not in env.possible_agents:
            raise ConfigError(f"first must be one of {env.possible_agents}, got {first!r}")
        order = sorted(env.possible_agents, key=lambda agent: agent != first)  # False comes first
        env = load_env(env_id, source, split, order=order)
    evaluated = {
        name for other in without for task in _tasks(other, source) for name in _names(task)
    }
    tasks = [task for task in env.tasks.tasks if isinstance(task, CodeTask)]
    kept = [task for task in tasks if evaluated.isdisjoint(_names(task))]
    own = None if programs is None else correct_programs(programs)
    if own is not None and own.keys().isdisjoint(task.task_id for task in kept):
        raise ConfigError(
            f"{programs} has no program that passes all tests of a problem of {split!r} of {env_id}"
        )
    origins: Counter[str] = Counter()
    divided = 0
    rows: list[dict[str, Any]] = []
    console = Console(stderr=True)
    hidden = not console.is_terminal
    sandbox = env.reward.sandbox  # type: ignore[attr-defined]
    chooses = prefer_tail or per_problem > 1
    for task in track(kept, "divisions", console=console, transient=True, disable=hidden):
        texts = None if own is None else own.get(task.task_id, [])
        try:
            found = [
                one
                for solved in _solved(task, texts)
                for one in _divide(solved, sandbox, options, chooses)
            ]
        except SandboxError as error:
            raise RunError(str(error)) from error
        shared = [one for one in found if one.division.shared() >= min_shared]
        shared.sort(key=_tail_first if prefer_tail else _most_shared_first)
        different: dict[str, DividedReference] = {}
        for division in shared:
            different.setdefault(division.code["main_0"], division)
        divided += bool(shared)
        for division in islice(different.values(), per_problem):
            origins[division.origin] += 1
            rows += _rows(env, task, division, first)
    with writing(output):
        write_atomically(output, "".join(json.dumps(row) + "\n" for row in rows))
    return WrittenDemonstrations(output, len(kept), len(tasks) - len(kept), divided, origins)


def correct_programs(folder: Path) -> dict[str, list[str]]:
    """Return the completions of one agent that pass all tests, by task, without repetitions.

    Args:
        folder: A run or an evaluation with `env.num_agents: 1`.

    Raises:
        ConfigError: If it has no episodes, several agents wrote them, or their infos have no number of tests.
    """
    path = folder / "episodes.jsonl"
    if not path.is_file():
        raise ConfigError(f"{folder} holds no episodes: give the folder of a run or an evaluation")
    found: dict[str, dict[str, None]] = {}
    for line, row in stored_rows(path):
        for group in row["groups"]:
            if list(group["completions"]) != ["main_0"]:
                raise ConfigError(
                    f"{path}: line {line} has the agents {list(group['completions'])}: "
                    "programs are of main_0 alone (env.num_agents=1)"
                )
            for (choice,), info in zip(group["joint"], group["infos"], strict=True):
                if "tests_total" not in info:
                    raise ConfigError(f"{path}: line {line} has no tests")
                if info["tests_passed"] == info["tests_total"]:
                    text = group["completions"]["main_0"][choice]
                    found.setdefault(row["start"]["task_id"], {})[text] = None
    return {task_id: list(texts) for task_id, texts in found.items()}


def _solved(task: CodeTask, texts: Sequence[str] | None) -> list[CodeTask]:
    """Return the task with each of the completions that solve it as its reference; `None`: with its own."""
    if texts is None:
        return [task]
    role = MainRole()  # of an agent alone
    codes = dict.fromkeys(role.read(task, text).code for text in texts)
    return [replace(task, references={"main_0": code}) for code in codes]


def _divide(
    task: CodeTask, sandbox: Sandbox, options: DivisionOptions, every: bool
) -> list[DividedReference]:
    """Return every division of a reference, or the one with most shared tests, which runs fewer programs."""
    if every:
        return list(find_divisions(task, sandbox, options))
    best = divide_reference(task, sandbox, options)
    return [best] if best is not None else []


def _most_shared_first(found: DividedReference) -> tuple[float, bool, float]:
    """Return the key of the order of `divide_reference`."""
    return -found.division.shared(), found.counts, -found.balance


def _tail_first(found: DividedReference) -> float:
    """Return the key of the order with `prefer_tail`."""
    # The weights are those of the pilots in studies/LOG.md ("divided programs of their own model").
    preference = 1.0 * found.is_tail - 0.6 * (found.origin == "loop body") - 1.0 * found.counts
    return -(found.division.shared() + min(found.balance, BALANCED) + preference)


def _rows(
    env: DecPOMDPEnv, task: CodeTask, found: DividedReference, first: str | None
) -> Iterator[dict[str, Any]]:
    prompts, _ = env.reset(options={"task_id": task.task_id})
    if first is not None:  # the other agent has its prompt when the first has answered
        before = {first: prompts[first]}
        prompts = {**env.step({first: found.code[first]})[0], **before}
    about = {"origin": found.origin, "balance": round(found.balance, 3)}
    about["shared"] = round(found.division.shared(), 3)
    for agent, prompt in prompts.items():
        texts = {"agent": agent, "prompt": prompt, "completion": found.code[agent]}
        yield {**texts, "task_id": task.task_id, **about}


def _names(task: CodeTask) -> set[str]:
    """Return the texts by which a problem is found in another set."""
    return {task.entry_point, task.prompt.strip()}


def _tasks(name: str, source: str) -> list[CodeTask]:
    env_id, _, split = name.partition(":")
    tasks = load_env(env_id, source, split or None).tasks.tasks
    return [task for task in tasks if isinstance(task, CodeTask)]
