"""Generated tasks: deterministic, without repetitions, and with splits that share nothing that matters."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any

from llm_decpomdp.envs.datasets.loading import Dataset, Row, load, parse_split
from llm_decpomdp.interfaces import Task, TaskSet
from llm_decpomdp.options import Options, option
from llm_decpomdp.seeding import stream

SPLITS = ("train", "test")

SIZE = 500
"""Tasks of a data set, 400 for training and 100 for tests."""

TEST_EVERY = 5
"""One of so many tasks, and of so many keys, belongs to the split `test`."""

MAX_DRAWS = 2000
"""Consecutive draws without a new task after which a split is complete."""


class TaskOptions(Options):
    """Options of every family of generated tasks.

    Raises:
        ValueError: If a value is of another type or out of its range.
    """

    task_seed: int = option(0, ge=0)
    """Seed of the tasks."""
    split: str = "train"
    """`train`, `test` or `all`, optionally sliced, such as `train[:50%]`."""
    source: str = option("bundled", choices=("bundled", "auto"))
    """`bundled` or `auto`: these tasks are generated."""
    discount: float = 1.0
    """Discount factor of the model, in [0, 1]."""
    render_mode: str | None = None
    """`None`, `ansi` or `human`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_split(self.split, (*SPLITS, "all"))


class WorldOptions(TaskOptions):
    """Options of families whose episodes have a number of turns."""

    num_turns: int = option(2, ge=1)
    """Turns of an episode, at most."""
    stop_when_solved: bool = True
    """End an episode at full marks, before its last turn."""


Draw = Callable[..., Row | None]
"""From random numbers and the kind of the tasks to a row, or `None` for a draw that is no task.

The row's `key` is what tasks of training and tests must not share, such as a word or a map. Its `content`, by
default the whole row, is what no two tasks may share.
"""


def generated_tasks(
    name: str,
    options: TaskOptions,
    draw: Draw,
    to_task: Callable[[int, Row], Task],
    *kind: Hashable,
) -> TaskSet:
    """Return the tasks of a split.

    Args:
        name: Name of the data set.
        options: Split and seed.
        draw: Draws a row.
        to_task: Makes a task of a row and its index.
        kind: What `draw` takes besides random numbers: the options that decide the tasks.
    """
    dataset = Dataset(
        name=name,
        hub="",
        filename="",
        bundled=partial(generated_rows, name, options.task_seed, draw, *kind),
        to_task=lambda _, row: to_task(row["index"], row),
        stand_in=False,
        splits=SPLITS,
        find_split=lambda row: str(row["split"]),
    )
    return load(dataset, options.split, "bundled")


@lru_cache(maxsize=16)
def generated_rows(name: str, task_seed: int, draw: Draw, *kind: Hashable) -> list[Row]:
    """Draw the rows of a data set; row `index` of a seed is always the same.

    The key of a row alone decides its split, so that no key is in both.
    """
    rows: list[Row] = []
    contents: set[str] = set()
    complete: set[str] = set()
    for index in range(SIZE):
        split = "test" if index % TEST_EVERY == TEST_EVERY - 1 else "train"
        rng = stream(task_seed, name, *map(str, kind), index)
        # The index also counts without a row, so that later rows keep their numbers.
        for _ in range(0 if split in complete else MAX_DRAWS):
            row = draw(rng, *kind)
            if row is None or split_of(row["key"]) != split:
                continue
            content = str(row.get("content", row))
            if content in contents:
                continue
            contents.add(content)
            rows.append({**row, "index": index, "split": split})
            break
        else:
            complete.add(split)
    return rows


def split_of(key: str) -> str:
    """Return the split of all tasks with a key."""
    # Not `hash`, which differs between processes.
    return "test" if zlib.crc32(key.encode()) % TEST_EVERY == 0 else "train"


def task_fields(name: str, index: int, prompt: str = "") -> dict[str, Any]:
    """Return the fields that every task has."""
    return {"task_id": f"{name}/{index}", "index": index, "prompt": prompt}
