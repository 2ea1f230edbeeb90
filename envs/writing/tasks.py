"""Data sets of texts: forum posts (TLDR) and abstracts of papers (arXiv).

| data set | hub                       | splits          | columns                                         |
|----------|---------------------------|-----------------|-------------------------------------------------|
| TLDR     | `trl-lib/tldr`            | `train`, `test` | `prompt` (the post), `completion` (a summary)   |
| arXiv    | `OpenMLRL/arXiv_abstract` | `train`, `val`  | `article_id`, `abstract_text`, `token_count`    |

A user's file has the same columns. The references `elaboration` (TLDR), `background` and `method` (arXiv) are in
the bundled rows but not on the hub. `task_id` and `split` are optional.

A row with an empty or too long source is not a task; the set's `excluded` names it with the reason. A post has at
most `MAX_POST_LENGTH` characters. An abstract has 100 to 300 tokens: its `token_count`, or else its number of
words and punctuation marks, which is close to the number of tokens in English.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from llm_decpomdp.envs.datasets.loading import Dataset, load
from llm_decpomdp.envs.datasets.rows import BadRow, Row, bundled_rows, missing
from llm_decpomdp.interfaces import Task, TaskSet
from llm_decpomdp.utils.text import warn_once

MAX_POST_LENGTH = 20_000
"""Maximum length of a post in characters, five times that of the longest posts in the real data."""

ABSTRACT_TOKENS = (100, 300)

TOKEN = re.compile(r"\w+|[^\w\s]")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WritingTask(Task):
    """A source to write about: its `prompt`."""

    problem: str = ""
    """Reason for leaving out the row; empty if there is none."""


def post_task(index: int, row: Row) -> WritingTask:
    """Make a task of a forum post.

    Raises:
        BadRow: If a field is missing or not a text.
    """
    post = _text(row, "prompt")
    fields = {"completion": "summarizer_0", "elaboration": "elaborator_0"}
    return _task("tldr", index, row, post, fields, _problem("prompt", post), row.get("task_id"))


def abstract_task(index: int, row: Row) -> WritingTask:
    """Make a task of an abstract.

    Raises:
        BadRow: If a field is missing or not a text, or `token_count` is not a number.
    """
    abstract = _text(row, "abstract_text")
    fewest, most = ABSTRACT_TOKENS
    tokens = row.get("token_count")
    if tokens is None:
        tokens = len(TOKEN.findall(abstract))
    elif isinstance(tokens, bool) or not isinstance(tokens, int):
        raise BadRow(f"field 'token_count' must be a whole number, got {tokens!r}")
    problem = _problem("abstract_text", abstract)
    if not problem and not fewest <= tokens <= most:
        problem = f"{tokens} tokens; {fewest} to {most} are read"
    fields = {"background": "background_0", "method": "method_0"}
    task_id = row.get("task_id", row.get("article_id"))
    return _task("arxiv", index, row, abstract, fields, problem, task_id)


def _problem(name: str, text: str) -> str:
    if not text.strip():
        return f"field {name!r} is empty"
    if len(text) > MAX_POST_LENGTH:
        return f"field {name!r} has {len(text)} characters; at most {MAX_POST_LENGTH}"
    return ""


def _text(row: Row, name: str) -> str:
    if name not in row:
        raise BadRow(missing(row, name))
    value = row[name]
    if value is not None and not isinstance(value, str):
        raise BadRow(f"field {name!r} must be a text, got {value!r}")
    return value or ""


def _task(
    kind: str,
    index: int,
    row: Row,
    source: str,
    fields: dict[str, str],
    problem: str,
    task_id: object,
) -> WritingTask:
    """Make a task with the references of its row; a missing id is made of the index and the text."""
    if task_id is None:
        # `surrogatepass`: JSON may contain lone surrogates, and two such texts need two ids.
        digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
        task_id = f"{index}-{digest[:8]}"
    references = {agent: _text({name: None, **row}, name).strip() for name, agent in fields.items()}
    return WritingTask(
        task_id=f"{kind}/{str(task_id).removeprefix(f'{kind}/')}",
        index=index,
        # A prompt must be encodable to be in the observation space.
        prompt=source.encode("utf-8", "replace").decode(),
        references={agent: text for agent, text in references.items() if text},
        problem=problem,
    )


def load_texts(dataset: Dataset, split: str, source: str | os.PathLike[str]) -> TaskSet:
    """Load one split as `load` does, without the rows that are no tasks; the set's `excluded` has the reasons."""
    task_set = load(dataset, split, source)
    tasks = [task for task in task_set.tasks if isinstance(task, WritingTask)]
    reasons = {task.task_id: task.problem for task in tasks if task.problem}
    valid = tuple(task for task in tasks if not task.problem)
    if not valid:
        examples = dict(list(reasons.items())[:3])
        raise ValueError(
            f"every row of split {split!r} of {task_set.source} is refused: {examples}"
        )
    if reasons:
        warn_once(logger, "%d rows of %s are refused: %s", len(reasons), task_set.source, reasons)
    return replace(task_set, tasks=valid, excluded=reasons)


def _find_split(row: Row) -> str | None:
    split = row.get("split")
    return split if isinstance(split, str) else None


def _texts(
    name: str, hub: str, splits: tuple[str, ...], to_task: Callable[[int, Row], Task]
) -> Dataset:
    return Dataset(
        name=name,
        hub=hub,
        filename=f"{name}.jsonl",
        bundled=partial(bundled_rows, f"{name}.jsonl"),
        to_task=to_task,
        stand_in=True,
        splits=splits,
        find_split=_find_split,
    )


POSTS = _texts("tldr", "trl-lib/tldr", ("train", "test"), post_task)
ABSTRACTS = _texts("arxiv", "OpenMLRL/arXiv_abstract", ("train", "val"), abstract_task)
