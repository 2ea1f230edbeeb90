"""Questions of `verified-v0`: those of reasoning-gym, or sums of our own where it is not installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from llm_decpomdp.envs.worlds.game import Draw, TaskOptions, generated_tasks, task_fields
from llm_decpomdp.interfaces import Task, TaskSet
from llm_decpomdp.utils.extras import install_command
from llm_decpomdp.utils.text import warn
from llm_decpomdp.validation import unknown

LIBRARY = "reasoning-gym"

POOL = 100_000
"""Questions of a data set of reasoning-gym, of which the tasks are drawn."""

OWN_DATA_SET = "chain_sum"
"""Data set of reasoning-gym that our own sums stand in for."""

SUM_OPTIONS = {"min_terms": 2, "max_terms": 6, "min_digits": 1, "max_digits": 4}
"""Options of our sums with their defaults, which are those of reasoning-gym."""


@dataclass(frozen=True)
class QuestionTask(Task):
    """A question; its text is the prompt."""

    answer: str = field(kw_only=True)
    position: int = field(kw_only=True)
    """Position in the data set of reasoning-gym; -1 for our own sums."""


@dataclass(frozen=True)
class QuestionSet:
    """A data set of questions of reasoning-gym or our own, and its checker."""

    dataset: str
    options: str
    """Fields of its configuration, as JSON."""
    source: str

    def tasks(self, options: TaskOptions) -> TaskSet:
        """Return the tasks of a split. No question stands twice in the data, so none is in both splits."""
        is_own = self.source == "bundled"
        draw: Draw = draw_sum if is_own else draw_question
        kind = (self.options,) if is_own else (self.dataset, self.options)
        name = f"verified-{self.dataset}"
        try:
            tasks = generated_tasks(name, options, draw, question_task, *kind)
        except ValueError as error:
            raise ValueError(
                f"dataset={self.dataset!r} has no tasks in split={options.split!r}: either none of its questions "
                f"has an answer that its checker accepts, or the slice is empty ({error})"
            ) from None
        return replace(tasks, source=self.source, stand_in=self.source == "bundled")

    def is_right(self, task: QuestionTask, answer: str) -> bool:
        """Check an answer. Points for parts of it do not count."""
        if task.position < 0:
            return answer.strip() == task.answer
        data = _data_set(self.dataset, self.options)
        try:
            return bool(data.score_answer(answer, data[task.position]) >= 1.0)
        except Exception:  # some checkers fail on texts that are no answers
            return False


def find_questions(dataset: str, options: Mapping[str, Any], source: str) -> QuestionSet:
    """Return the questions of a data set.

    Args:
        dataset: Name of a data set of reasoning-gym.
        options: Fields of its configuration.
        source: `reasoning-gym`, `bundled`, or `auto`: reasoning-gym where it is installed.

    Raises:
        ImportError: If reasoning-gym is needed and not installed.
        KeyError: If there is no such data set.
        ValueError: If its configuration has no such option, or our sums do not have it.
    """
    installed = find_spec("reasoning_gym") is not None
    questions = QuestionSet(dataset, json.dumps(dict(options), sort_keys=True), source)
    if source == "bundled" or (source == "auto" and not installed and dataset == OWN_DATA_SET):
        if dataset != OWN_DATA_SET:
            raise ValueError(
                f"source='bundled' has sums in place of {OWN_DATA_SET!r} alone, got dataset={dataset!r}: take "
                f"source={LIBRARY!r}"
            )
        for name in options:
            if name not in SUM_OPTIONS:
                raise ValueError(unknown("option of the bundled sums", name, SUM_OPTIONS))
        if source == "auto":
            warn(
                f"{LIBRARY} is not installed, so verified-v0 asks bundled sums instead: "
                f"{install_command(LIBRARY)}"
            )
        return replace(questions, source="bundled")
    if not installed:
        raise ImportError(f"dataset={dataset!r} needs {LIBRARY}: {install_command(LIBRARY)}")
    from reasoning_gym.factory import DATASETS

    if dataset not in DATASETS:
        raise KeyError(unknown("data set of reasoning-gym", dataset, DATASETS))
    try:
        _data_set(dataset, questions.options)
    except (TypeError, AssertionError, ValueError) as error:
        raise ValueError(f"dataset_options of {dataset}: {error}") from None
    return replace(questions, source=LIBRARY)


@lru_cache(maxsize=8)
def _data_set(dataset: str, options: str) -> Any:
    import reasoning_gym

    return reasoning_gym.create_dataset(dataset, **{"seed": 0, "size": POOL, **json.loads(options)})


def draw_question(rng: np.random.Generator, dataset: str, options: str) -> dict[str, Any] | None:
    """Draw a question of reasoning-gym; `None` for one whose answer is no text or not accepted by its checker."""
    data = _data_set(dataset, options)
    position = int(rng.integers(len(data)))
    entry = data[position]
    answer = entry["answer"]
    if not isinstance(answer, str) or data.score_answer(answer, entry) < 1.0:
        return None
    texts = dict.fromkeys(("key", "content", "question"), entry["question"])
    return {**texts, "answer": answer, "position": position}


def draw_sum(rng: np.random.Generator, options: str) -> dict[str, Any]:
    """Draw a sum or difference of integers, as `chain_sum` asks them."""
    limits = {**SUM_OPTIONS, **json.loads(options)}
    terms = int(rng.integers(limits["min_terms"], limits["max_terms"] + 1))
    digits = int(rng.integers(limits["min_digits"], limits["max_digits"] + 1))
    low = 0 if digits == 1 else 10 ** (digits - 1)
    numbers = rng.integers(low, 10**digits, size=terms)
    signs = [1, *rng.choice([1, -1], size=terms - 1)]
    text = "".join(
        f" {'+' if sign > 0 else '-'} {number}" for sign, number in zip(signs, numbers, strict=True)
    )
    expression = text.removeprefix(" + ")
    total = sum(int(sign) * int(number) for sign, number in zip(signs, numbers, strict=True))
    question = f"State the final answer to the following arithmetic problem: {expression} ="
    return {"key": question, "question": question, "answer": str(total), "position": -1}


def question_task(index: int, row: Mapping[str, Any]) -> QuestionTask:
    """Return the task of a row."""
    fields = task_fields("question", index, row["question"])
    return QuestionTask(**fields, answer=row["answer"], position=row["position"])
