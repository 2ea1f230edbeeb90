"""Stored pairs, from a file that `export --pairs --to jsonl` has written, as rollouts.

Each pair becomes a rollout of one group with two joint samples, as if it had just been played. Agents with equal
completions in both samples have no row, and are not in the group.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start, Timer
from llm_decpomdp.algorithms.training.rollout_source import (
    RolloutSource,
    TrainBatch,
    UpdateRequest,
)
from llm_decpomdp.policy import Completion, Team, TrainablePolicy, policy_attribute, reads_history
from llm_decpomdp.utils.text import parse_lines

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]

SIDES = ("chosen", "rejected")
NEEDED = tuple("task turn agent prompt chosen rejected chosen_return rejected_return".split())
# Columns that identify a pair.
SAMPLES = ("run", "task", "rollout", "group", "chosen_sample", "rejected_sample")


def stored_pairs(
    path: Path,
    models: Mapping[str, str | None],
    limit: int | None = None,
    environment: str | None = None,
) -> list[Rollout]:
    """Read the pairs of a JSONL file, each as a rollout of two joint samples, the better one first.

    Args:
        path: The file, with a line for each agent of each pair.
        models: Name of the model of each agent. Completions sampled by a model of the same name keep their token
            ids; others have none.
        limit: Maximum number of pairs of a task, by the difference of returns; `None` for all.
        environment: Id of the environment that pairs must name, if they name one; `None` for any.

    Raises:
        ValueError: If the file cannot be read or has no pair, or a line has another format; names the line.
    """
    rows: dict[tuple[Any, ...], list[Row]] = {}

    def add(line: str) -> None:
        row = _check_row(line, models, environment)
        of_pair = rows.setdefault(tuple(row.get(key) for key in SAMPLES), [])
        if row["agent"] in [before["agent"] for before in of_pair]:
            raise ValueError(
                f"a second row of {row['agent']!r} in a pair: pairs are told apart by {', '.join(SAMPLES)}"
            )
        of_pair.append(row)

    parse_lines(path, "pairs", add)
    return _limit([_rollout(of_pair, models) for of_pair in rows.values()], limit)


def _check_row(line: str, models: Mapping[str, str | None], environment: str | None) -> Row:
    row: Any = json.loads(line)
    missing = [key for key in NEEDED if not isinstance(row, dict) or key not in row]
    if missing:
        raise ValueError(
            f"no {', '.join(missing)}: write the file by export RUN --pairs --to jsonl"
        )
    env_id = row.get("environment")
    if environment is not None and env_id not in (None, environment):
        raise ValueError(
            f"a pair of {env_id}, and the configuration is of {environment}: set env.id"
        )
    if row["agent"] not in models:
        raise ValueError(f"agent {row['agent']!r} is none of {', '.join(models)}")
    if not row["chosen_return"] > row["rejected_return"]:
        raise ValueError(
            f"chosen_return must be above rejected_return, got {row['chosen_return']} and {row['rejected_return']}"
        )
    return dict(row)


def _rollout(rows: Sequence[Row], models: Mapping[str, str | None]) -> Rollout:
    first = rows[0]
    group = Group(
        turn=first["turn"],
        parent=None,
        prompts={row["agent"]: row["prompt"] for row in rows},
        completions={
            row["agent"]: (_completion(row, "chosen", models), _completion(row, "rejected", models))
            for row in rows
        },
        joint=((0,) * len(rows), (1,) * len(rows)),
        rewards=tuple(float(first[f"{side}_return"]) for side in SIDES),
        infos=({}, {}),
    )
    # Exports name a start without a task by its seed.
    seed = re.fullmatch(r"seed (\d+)", first["task"])
    return Rollout(Start(seed=int(seed[1])) if seed else Start(task_id=first["task"]), (group,))


def _completion(row: Row, side: str, models: Mapping[str, str | None]) -> Completion:
    name, tokens = models[row["agent"]], row.get(f"{side}_token_ids")
    if tokens is None or name is None or row.get("model") != name:
        tokens = ()
    return Completion(
        row[side], tuple(tokens), finish_reason=row.get(f"{side}_finish_reason") or "stop"
    )


def _limit(pairs: list[Rollout], limit: int | None) -> list[Rollout]:
    """Return the pairs of each task with the largest gaps, at most `limit`, in the order of the file."""
    by_task: dict[Start, list[int]] = {}
    for index, pair in enumerate(pairs):
        by_task.setdefault(pair.start, []).append(index)
    positions = {
        index
        for of_task in by_task.values()
        # The sort is stable: of equal gaps, the first ones in the file are kept.
        for index in sorted(of_task, key=lambda k: -_gap(pairs[k]))[:limit]
    }
    return [pair for index, pair in enumerate(pairs) if index in positions]


def _gap(pair: Rollout) -> float:
    better, worse = pair.groups[0].rewards
    return better - worse


class StoredSource(RolloutSource):
    """Rollouts that were stored, one for each start of each update."""

    is_sampled = False

    def __init__(self, updates: Sequence[Sequence[Rollout]]) -> None:
        self.updates = updates
        self.batches = [[rollout.start for rollout in rollouts] for rollouts in updates]

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Return the rollouts of an update."""
        rollouts = list(self.updates[request.update - 1])
        return TrainBatch([processes.shard(rollouts)], rollouts=rollouts)


def add_tokens(pairs: Sequence[Rollout], team: Team) -> list[Rollout]:
    """Return stored pairs with tokens for all completions of trained policies.

    A text without tokens is tokenized, and the end of the sequence appended unless the token limit had cut it off.
    These tokens may differ from the sampled ones.

    Raises:
        TypeError: If such a policy has no `encode_completion`.
        ValueError: If a policy reads histories, and a pair is of a later turn.
    """
    number = 0
    result = []
    for pair in pairs:
        (group,) = pair.groups
        _require_no_history(group, team)
        completions = {}
        for agent, answers in group.completions.items():
            without = [c for c in answers if not c.tokens and not c.skipped]
            if without and isinstance(policy := team[agent], TrainablePolicy):
                number += len(without)
                prompt = group.prompts[agent]
                answers = tuple(
                    tokenize(c, prompt, policy, agent) if c in without else c for c in answers
                )
            completions[agent] = answers
        result.append(replace(pair, groups=(replace(group, completions=completions),)))
    if number:
        logger.warning(
            "%d completions of stored pairs have no tokens of these models and were tokenized again: record "
            "tokens in the run that is exported (output.record_tokens)",
            number,
        )
    return result


def _require_no_history(group: Group, team: Team) -> None:
    """Raise a `ValueError` for a pair of a later turn, if a policy reads histories, which files do not have."""
    for agent in group.prompts:
        if group.turn and reads_history(team[agent]):
            raise ValueError(
                f"the policy of {agent!r} reads histories, and stored pairs of later turns have none: leave out "
                "pairs of turns above 0, or set history=none"
            )


def tokenize(
    completion: Completion, prompt: str, policy: TrainablePolicy, agent: str
) -> Completion:
    """Return a completion with the tokens of its text by a policy; its end, too, unless it was cut off."""
    encode_completion = policy_attribute(policy, "encode_completion")
    if encode_completion is None:
        raise TypeError(
            f"the completions of {agent!r} have no tokens, and a {type(policy).__name__} cannot tokenize texts: "
            "it has no encode_completion()"
        )
    whole: Completion = encode_completion(completion.text, prompt)
    if not completion.truncated or whole.truncated:
        return whole
    # A truncated completion has no end token, which `encode_completion` adds.
    return replace(whole, tokens=whole.tokens[:-1], finish_reason="length")


def identify_pairs(path: Path, rows: int) -> dict[str, Any]:
    """Identify stored pairs by their number and the SHA-256 of their file."""
    return {"rows": rows, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
