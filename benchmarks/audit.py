"""`llm-decpomdp audit`: whether the rewards of a data set can be trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from llm_decpomdp.benchmarks.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.remarks import (
    REFERENCE,
    Grading,
    Remark,
    Subject,
    about_gradings,
    about_stubs,
    about_text,
    grade,
)
from llm_decpomdp.benchmarks.results import task_name
from llm_decpomdp.envs.humaneval import CodeTask
from llm_decpomdp.envs.sandbox import Limits, Sandbox, SandboxError
from llm_decpomdp.envs.sandbox.service import available_cores
from llm_decpomdp.registry import make
from llm_decpomdp.storage import read_json_lines
from llm_decpomdp.tasks import TaskSet

TEAMS = ({"main_0"}, {"aux_0", "main_0"})

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Audit:
    """All that was found."""

    env_id: str
    data: Mapping[str, Any]
    """Identity of the data, see `TaskSet.describe`."""
    repeats: int
    programs: int
    """Joint completions that were graded."""
    remarks: tuple[Remark, ...]
    """Faults first."""

    @property
    def healthy(self) -> bool:
        """Whether no remark is a fault."""
        return not any(remark.fault for remark in self.remarks)


def audit(
    env_id: str,
    source: str = "auto",
    split: str = "test",
    episodes: Path | None = None,
    repeats: int = 3,
    limits: Limits | None = None,
) -> Audit:
    """Grade the references of an environment's tasks, and the programs of a run, several times.

    Each time, strings hash otherwise and `random` starts otherwise. Shows a progress bar on stderr.

    Args:
        env_id: A registered environment.
        source: Where the problems come from.
        split: Which of them.
        episodes: `episodes.jsonl` of a run folder, whose joint completions are graded too.
        repeats: How often each is graded.
        limits: What each program may use; by default what it may when it is trained on.

    Raises:
        ConfigError: If an argument is wrong.
        RunError: If the data or the sandbox fail.
    """
    if repeats < 2:
        raise ConfigError(f"repeats must be at least 2 to show a difference, got {repeats}")
    limits = limits or Limits()
    data = _load(env_id, source, split)
    tasks = [task for task in data.tasks if isinstance(task, CodeTask)]
    if len(tasks) < len(data):
        raise ConfigError(f"{env_id} has tasks without tests: there is nothing to audit")
    subjects = [Subject(task, task.references, REFERENCE) for task in tasks if task.references]
    subjects += _of_episodes(episodes, data) if episodes is not None else []
    remarks = [remark for task in tasks for remark in about_text(task)]
    try:
        gradings: list[list[Grading]] = [[] for _ in subjects]
        for seed in range(repeats):
            work = partial(grade, seed=seed, limits=limits)
            for found, one in zip(gradings, _all(work, subjects, f"seed {seed}"), strict=True):
                found.append(one)
            Sandbox(seed=seed).close()
        for subject, found in zip(subjects, gradings, strict=True):
            remarks += about_gradings(subject, found)
        stubs = partial(_stubs, limits=limits)
        remarks += [remark for some in _all(stubs, tasks, "empty programs") for remark in some]
    except SandboxError as error:
        raise RunError(str(error)) from error
    remarks.sort(key=lambda remark: not remark.fault)
    return Audit(env_id, data.describe(), repeats, len(subjects), tuple(remarks))


def _stubs(task: CodeTask, limits: Limits) -> list[Remark]:
    return list(about_stubs(task, limits))


def _all(work: Callable[[Item], Found], items: Iterable[Item], what: str) -> list[Found]:
    """Do some work on each item, as many at a time as there are cores; results in order."""
    items = list(items)
    with ThreadPoolExecutor(available_cores()) as threads:
        results = threads.map(work, items)
        console = Console(stderr=True)
        quiet = not console.is_terminal
        return list(
            track(results, what, len(items), console=console, transient=True, disable=quiet)
        )


def _load(env_id: str, source: str, split: str) -> TaskSet:
    try:
        return make(env_id, source=source, split=split).tasks
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(str(error.args[0])) from None
    except OSError as error:
        raise RunError(f"cannot load the data of {env_id}: {error}") from error


def _of_episodes(path: Path, data: TaskSet) -> Iterator[Subject]:
    """The joint completions of a run, each different one once."""
    if not path.is_file():
        raise ConfigError(f"no file {path}: name the episodes.jsonl of a run folder")
    seen = set()
    try:
        for line, row in enumerate(read_json_lines(path), 1):
            task = data.find(task_name(row))
            assert isinstance(task, CodeTask)
            for place, completions in _samples(row):
                key = (task.task_id, *sorted(completions.items()))
                if key not in seen:
                    seen.add(key)
                    yield Subject(task, completions, f"{path.name} line {line}, {place}")
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} holds no episodes of these agents: {error}") from None
    except KeyError as error:
        raise ConfigError(
            f"{path}: {error.args[0]}. Give the --source and --split of the run, and its episodes.jsonl"
        ) from None


def _samples(row: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    for number, turn in enumerate(row["groups"], 1):
        texts: dict[str, list[str]] = turn["completions"]
        if set(texts) not in TEAMS:
            raise ValueError(f"expected aux_0 and main_0, or main_0 alone, got {sorted(texts)}")
        for sample, joint in enumerate(zip(*texts.values(), strict=True), 1):
            yield f"turn {number}, sample {sample}", dict(zip(texts, joint, strict=True))


def as_json(result: Audit) -> str:
    """The result as a JSON object, with `healthy`."""
    return json.dumps({**asdict(result), "healthy": result.healthy}, indent=2)


def show(result: Audit) -> None:
    """Print the result as a table."""
    console = Console()
    if result.remarks:
        table = Table("", "kind", "task", "what", title=f"audit of {result.env_id}")
        for remark in result.remarks:
            mark = "[red]fault[/red]" if remark.fault else "note"
            text = f"{remark.program}: {remark.text}" if remark.program else remark.text
            cells = (remark.kind, remark.task_id, text)
            table.add_row(mark, *map(escape, cells))
        console.print(table)
    faults = sum(remark.fault for remark in result.remarks)
    console.print(
        f"{result.data['rows']} tasks ({result.data['source']}), {result.programs} programs graded "
        f"{result.repeats} times each: {faults} faults, {len(result.remarks) - faults} notes"
    )
