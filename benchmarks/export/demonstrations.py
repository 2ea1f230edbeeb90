"""Demonstrations of a team that divides the work, from references: `llm-decpomdp demonstrations`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, writing
from llm_decpomdp.benchmarks.runs.data import load_env
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.coding.division import DividedReference, divide_reference
from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.sandbox import SandboxError
from llm_decpomdp.utils.storage import write_atomically


@dataclass(frozen=True)
class WrittenDemonstrations:
    """What was written."""

    path: Path
    problems: int
    """Problems of the split, without those that are left out."""
    left_out: int
    """Problems that are evaluated, by `without`."""
    origins: Counter[str]

    def lines(self) -> Iterator[str]:
        """Yield the result in words."""
        kinds = ", ".join(f"{name} {count}" for name, count in self.origins.most_common())
        share = f"{self.origins.total()} of {self.problems} problems"
        yield f"{share} have a division whose tests are shared work ({kinds or 'none'})"
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
    in_order: bool = False,
    same_parameters: bool = False,
) -> WrittenDemonstrations:
    """Write the prompts of two agents with the parts of divided references, as JSON Lines for a warm start.

    Shows a progress bar on stderr.

    Args:
        env_id: An environment of a helper and an entry function.
        split: Its problems.
        output: The file. A line has `agent`, `prompt`, `completion`, `task_id`, `origin`, `balance` and `shared`.
        source: Where the problems come from.
        without: Environments that are evaluated, such as `coophumaneval-v0` or `mbpp-v0:test[:50]`. Their
            problems are left out, by text and by the name of the entry function.
        min_shared: Least share of the tests that are shared work.
        in_order: The entry function's author reads the helper first, as with `env.order: [aux_0, main_0]`.
        same_parameters: See `divide_reference`.

    Raises:
        ConfigError: If an argument is wrong.
        RunError: If the sandbox fails.
    """
    env = load_env(env_id, source, split)
    if env.possible_agents != ["aux_0", "main_0"]:
        raise ConfigError(
            f"{env_id} has the agents {env.possible_agents}: demonstrations are of environments with aux_0 and "
            "main_0, such as mbpp-v0"
        )
    if in_order:
        env = load_env(env_id, source, split, order=["aux_0", "main_0"])
    evaluated = {
        name for other in without for task in _tasks(other, source) for name in _names(task)
    }
    tasks = [task for task in env.tasks.tasks if isinstance(task, CodeTask)]
    kept = [task for task in tasks if evaluated.isdisjoint(_names(task))]
    origins: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    console = Console(stderr=True)
    hidden = not console.is_terminal
    sandbox = env.reward.sandbox  # type: ignore[attr-defined]
    for task in track(kept, "divisions", console=console, transient=True, disable=hidden):
        try:
            found = divide_reference(task, sandbox, same_parameters=same_parameters)
        except SandboxError as error:
            raise RunError(str(error)) from error
        if found is not None and found.division.shared() >= min_shared:
            origins[found.origin] += 1
            rows += _rows(env, task, found, in_order)
    with writing(output):
        write_atomically(output, "".join(json.dumps(row) + "\n" for row in rows))
    return WrittenDemonstrations(output, len(kept), len(tasks) - len(kept), origins)


def _rows(
    env: DecPOMDPEnv, task: CodeTask, found: DividedReference, in_order: bool
) -> Iterator[dict[str, Any]]:
    prompts, _ = env.reset(options={"task_id": task.task_id})
    if in_order:  # main_0 has its prompt when aux_0 has answered
        helper = {"aux_0": prompts["aux_0"]}
        prompts = {**env.step({"aux_0": found.code["aux_0"]})[0], **helper}
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
