"""The problems of an environment, wherever they come from."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from llm_decpomdp.interfaces import Task
from llm_decpomdp.validation import unknown


@dataclass(frozen=True)
class TaskSet:
    """An ordered, loaded set of tasks, with its origin."""

    tasks: tuple[Task, ...]
    name: str
    source: str
    """`hub`, `package`, `bundled` or the path of a file."""
    split: str
    revision: str = ""
    """The hub's commit; empty where they are not from the hub."""
    stand_in: bool = False
    """True where these are our own problems in place of the benchmark's."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Ids of the tasks that are left out, with the reasons."""

    def __post_init__(self) -> None:
        """Raise a `ValueError` for a set without tasks, or with two tasks of one id."""
        if not self.tasks:
            raise ValueError(
                f"the task set {self.name!r} ({self.source}, split {self.split!r}) is empty: give it at least one "
                "task"
            )
        if len(self.positions) < len(self.tasks):
            (task_id, count), *_ = Counter(task.task_id for task in self.tasks).most_common(1)
            raise ValueError(
                f"the task set {self.name!r} has {count} tasks with the id {task_id!r}: give each its own, since "
                "runs and evaluations find tasks by their ids"
            )

    @property
    def known_issues(self) -> dict[str, str]:
        """Ids of the tasks that are known to be wrong, with the reasons."""
        return {t.task_id: t.known_issue for t in self.tasks if t.known_issue is not None}

    def __len__(self) -> int:
        return len(self.tasks)

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskSet:
        """Return itself: nothing in it changes, and a copy of an environment should not copy the data."""
        return self

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Task id to position."""
        return {task.task_id: position for position, task in enumerate(self.tasks)}

    def find(self, task_id: object) -> Task:
        """Return the task with this id.

        Raises:
            KeyError: If there is none; the text names the nearest id.
        """
        if not isinstance(task_id, str) or task_id not in self.positions:
            raise KeyError(unknown("task_id", task_id, self.positions))
        return self.tasks[self.positions[task_id]]

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits of a SHA-256 over the data of every task; our notes don't count."""
        # A new note about a known issue must not make the data of old runs look changed.
        rows = [asdict(replace(task, known_issue=None)) for task in self.tasks]
        text = json.dumps(rows, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """Return the JSON-able identity of the data, for metadata, manifests and reports."""
        return {
            "name": self.name,
            "source": self.source,
            "split": self.split,
            "revision": self.revision,
            "rows": len(self),
            "stand_in": self.stand_in,
            "known_issues": self.known_issues,
            "excluded": dict(self.excluded),
            "fingerprint": self.fingerprint,
        }


TaskLoader = Callable[[], TaskSet]
"""Loads the tasks when they are first needed, so that building an environment stays cheap."""
