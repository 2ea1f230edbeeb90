"""Rollouts as JSON text: those that wait for their update in a checkpoint, and those of a run's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llm_decpomdp.algorithms.rollouts.histories import restore_histories
from llm_decpomdp.algorithms.rollouts.rollout import Completions, Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.views import View
from llm_decpomdp.policy import Completion, Usage

Row = Mapping[str, Any]


def to_text(rollout: Rollout) -> str:
    """Write a rollout with all that it holds: token ids, log-probabilities, drafts, views, scores, opponent.

    Raises:
        TypeError: If infos or the record of the episode hold more than JSON does.
    """
    return json.dumps(rollout, default=_fields)  # dataclasses; named tuples are lists


def _fields(item: Any) -> dict[str, Any]:
    # Versions are left out where there are none, as earlier versions wrote.
    return {name: value for name, value in vars(item).items() if name != "versions" or value}


def from_text(text: str) -> Rollout:
    """Read a rollout that `to_text` has written: equal to it, but that tuples in `final` are lists."""
    return _rollout(json.loads(text))


def _rollout(row: Row) -> Rollout:
    # Earlier versions called it the comparator.
    row = {"opponent" if key == "comparator" else key: value for key, value in row.items()}
    rival = row["opponent"]
    dialogues = tuple(row.get("dialogues", ()))  # earlier versions wrote none
    fields = {
        "start": Start(**row["start"]),
        "groups": restore_histories([*map(_group, row["groups"])], dialogues),
        "dialogues": dialogues,
        "opponent": None if rival is None else _rollout(rival),
    }
    return Rollout(**{**row, **fields})


def _group(row: Row) -> Group:
    fields = {
        "parent": None if row["parent"] is None else Parent(*row["parent"]),
        "completions": _completions(row["completions"]),
        "joint": tuple(map(tuple, row["joint"])),
        "rewards": tuple(row["rewards"]),
        "infos": tuple(row["infos"]),
        "drafts": tuple(map(_completions, row["drafts"])),
        "anchors": tuple(map(tuple, row["anchors"])),
        "view": _view(row["view"]),
        "views": tuple(map(_view, row["views"])),
        "scores": tuple(row["scores"]),
        "ended": tuple(row.get("ended", ())),  # earlier versions wrote none
        "own": {agent: tuple(points) for agent, points in row.get("own", {}).items()},
    }
    return Group(**{**row, **fields})


def _completions(rows: Mapping[str, list[Row]]) -> Completions:
    return {agent: tuple(map(_completion, of_agent)) for agent, of_agent in rows.items()}


def _completion(row: Row) -> Completion:
    fields = {
        "tokens": tuple(row["tokens"]),
        "log_probs": tuple(row["log_probs"]),
        "usage": None if row["usage"] is None else Usage(*row["usage"]),
        "versions": tuple(row.get("versions", ())),
    }
    return Completion(**{**row, **fields})


def _view(row: list[Any] | None) -> View | None:
    return None if row is None else View(*row)
