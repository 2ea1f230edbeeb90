"""The rows of `metrics.jsonl` and `episodes.jsonl`, as pure functions of rollouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout
from llm_decpomdp.policy import Completion

WARM_START, UNTRAINED = BEFORE = ("warm_start", "untrained")
"""Kinds of rows of a warm start: its steps, and an evaluation before it."""

MEANS = ("solved", "untagged")
"""Infos whose means are metrics, besides the components of the reward."""


def reward_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Compute means over the joint samples of some rollouts.

    With <x> = `reward_mean`, `MEANS` and each `reward/<component>` of the infos:

    - `<x>`: mean over all turns, in which every rollout counts the same.
    - `turn_<k>/<x>`: mean over the rollouts that reached turn k, counted from 1.
    - `last/<x>`: mean over the last groups of each rollout.
    - `reward_std`: standard deviation over all joint samples.
    - `turn_<k>/groups`: number of groups of turn k.
    - `stopped_early`: share of the last groups at which a rollout stopped early.
    - `own/<agent>`: mean of the agent's own points, as `reward_mean`; missing where the environment gives none.
    - `truncated/<agent>`: share of the agent's completions that hit the token limit.
    - `long_prompts/<agent>`: number of the agent's prompts that were too long for its policy, and cut or skipped.
    """
    turns = [rollout.turns for rollout in rollouts]
    metrics = _means("", turns)
    samples = [reward for group in _groups(rollouts) for reward in group.rewards]
    metrics["reward_std"] = float(np.std(samples))
    metrics["stopped_early"] = float(np.mean([rollout.stopped_early for rollout in rollouts]))
    for k in range(max(map(len, turns))):
        kth = [[rollout[k]] for rollout in turns if len(rollout) > k and rollout[k]]
        if not kth:  # stored pairs may all be of later turns
            continue
        metrics |= _means(f"turn_{k + 1}/", kth)
        metrics[f"turn_{k + 1}/groups"] = sum(len(groups) for (groups,) in kth)
    metrics |= _means("last/", [[rollout.last] for rollout in rollouts])
    for agent in {agent: 0 for group in _groups(rollouts) for agent in group.own}:
        own = [turn_mean(rollout, _own_points(agent)) for rollout in turns]
        metrics[f"own/{agent}"] = float(np.mean(own))
    for agent, completions in _completions(rollouts).items():
        truncated = [completion.truncated for completion in completions]
        metrics[f"truncated/{agent}"] = float(np.mean(truncated))
        answers = (group.completions.get(agent) for group in _groups(rollouts))
        metrics[f"long_prompts/{agent}"] = sum(
            answer[0].long_prompt for answer in answers if answer
        )
    return metrics


def evaluation_metrics(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Compute the `reward_metrics` of an evaluation, with standard errors and `n`, the number of rollouts.

    `reward_standard_error` belongs to `reward_mean`, `last/reward_standard_error` to
    `last/reward_mean`; both are `None` for a single rollout.
    """
    means = [turn_mean(rollout.turns, _rewards) for rollout in rollouts]
    last = [turn_mean([rollout.last], _rewards) for rollout in rollouts]
    return {
        **reward_metrics(rollouts),
        "reward_standard_error": _standard_error(means),
        "last/reward_standard_error": _standard_error(last),
        "n": len(rollouts),
    }


def count_tokens(rollouts: Sequence[Rollout]) -> int:
    """Count all sampled tokens, of every agent that has a tokenizer."""
    return sum(
        len(completion.tokens)
        for completions in _completions(rollouts).values()
        for completion in completions
    )


def episode_row(
    rollout: Rollout, update: int, phase: str, with_tokens: bool = False
) -> dict[str, Any]:
    """Return a rollout as a row of `episodes.jsonl`; `phase` is `train` or `eval`.

    `with_tokens` adds the `token_ids` and `log_probs` of every agent's completions to each group.
    """
    return {
        "update": update,
        "phase": phase,
        "start": asdict(rollout.start),
        "groups": [_row(group, with_tokens) for group in rollout.groups],
        "stopped_early": rollout.stopped_early,
        "final": rollout.final,
        **({"pooled": True} if rollout.pooled else {}),
        **({"dialogues": list(rollout.dialogues)} if rollout.dialogues else {}),
    }


def _row(group: Group, with_tokens: bool) -> dict[str, Any]:
    row = {
        "turn": group.turn,
        "parent": group.parent and group.parent._asdict(),
        "prompts": group.prompts,
        "completions": {
            agent: [c.text for c in completions] for agent, completions in group.completions.items()
        },
        "finish_reasons": {
            agent: [c.finish_reason for c in completions]
            for agent, completions in group.completions.items()
        },
        "joint": group.joint,
        "rewards": list(group.rewards),
        "infos": list(group.infos),
        "chosen": group.chosen,
        **({"anchors": group.anchors} if group.anchors else {}),
        **({"scores": list(group.scores)} if group.scores else {}),
        **({"own": {a: list(points) for a, points in group.own.items()}} if group.own else {}),
    }
    if with_tokens:
        agents = group.completions.items()
        row["token_ids"] = {agent: [c.tokens for c in completions] for agent, completions in agents}
        row["log_probs"] = {
            agent: [c.log_probs for c in completions] for agent, completions in agents
        }
    return row


Values = Callable[[Group], Sequence[float]]
Turns = Sequence[Sequence[Group]]
"""The groups of each turn of a rollout."""


def _groups(rollouts: Sequence[Rollout]) -> list[Group]:
    return [group for rollout in rollouts for group in rollout.groups]


def _completions(rollouts: Sequence[Rollout]) -> dict[str, list[Completion]]:
    """Collect all completions of each agent."""
    by_agent: dict[str, list[Completion]] = {}
    for group in _groups(rollouts):
        for agent, completions in group.completions.items():
            by_agent.setdefault(agent, []).extend(completions)
    return by_agent


def _rewards(group: Group) -> Sequence[float]:
    return group.rewards


def _means(prefix: str, rollouts: Sequence[Turns]) -> dict[str, float]:
    """Compute means over samples, groups, turns, then rollouts, of the reward and the infos they all have."""
    groups = [group for turns in rollouts for turn in turns for group in turn]
    infos = [info for group in groups for info in group.infos]
    # Infos may differ from step to step; a mean over some of them would compare different samples.
    shared = set(infos[0]).intersection(*infos)
    keys = [key for key in infos[0] if key in shared]
    keys = [key for key in keys if key in MEANS or key.startswith("reward/")]
    values: dict[str, Values] = {"reward_mean": _rewards}
    values |= {key: _info(key) for key in keys}
    return {
        f"{prefix}{name}": float(np.mean([turn_mean(turns, of) for turns in rollouts]))
        for name, of in values.items()
    }


def _info(key: str) -> Values:
    return lambda group: [info[key] for info in group.infos]


def _own_points(agent: str) -> Values:
    return lambda group: group.own.get(agent, (0.0,))


def turn_mean(turns: Turns, of: Values) -> float:
    """Compute the mean over the joint samples of a group, then over the groups of a turn, then over turns."""
    return float(
        np.mean([np.mean([np.mean(of(group)) for group in turn]) for turn in turns if turn])
    )


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
