"""The measures of an episode, from its row in `episodes.jsonl`.

Rewards and their components, per turn and at the end, come from
`llm_decpomdp.algorithms.training.metrics`, as those of a run do. docs/evaluation.md defines each measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from llm_decpomdp.algorithms.training.metrics import reward_metrics
from llm_decpomdp.benchmarks.evaluation.play import rollout_of
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap, share
from llm_decpomdp.policy import REFUSAL

Row = Mapping[str, Any]

REWARD = "last/reward_mean"
"""The measure that teams are ranked by: the reward at the end of the episode."""

COOPERATION = {"uses_aux": 0.5, "not_wrapper": 1.0, "aux_ignored": -0.5}
"""The components of the code reward that tell how helpers are used, and their points where all of them are."""

_OF_GROUPS = ("reward_std", "stopped_early")
"""Metrics of several samples and of groups that stop early: an episode has neither."""


def measures(row: Row) -> dict[str, float]:
    """Compute all measures of an episode; those that it has no value for are missing."""
    values = {
        key: value
        for key, value in reward_metrics([rollout_of(row)]).items()
        if key not in _OF_GROUPS and not key.endswith("/groups")
    }
    turns = len(row["groups"])
    values["turns"] = float(turns)
    for k in range(2, turns + 1):
        before, after = (values[f"turn_{turn}/reward_mean"] for turn in (k - 1, k))
        values[f"turn_{k}/improvement"] = after - before
    return {**values, **_tests(row), **_cooperation(row), **_refusals(row), **_tokens(row)}


def passed(row: Row) -> bool:
    """Check whether pass@k counts an episode: all tests pass in the end, or, where there is none, it is solved."""
    return passes(_last_info(row))


def passes(info: Mapping[str, float]) -> bool:
    """Check the same from the infos of a turn."""
    if info.get("tests_total"):
        return bool(info["tests_passed"] == info["tests_total"])
    return bool(info.get("solved", 0.0))


def is_share(measure: str) -> bool:
    """Check whether a measure lies between 0 and 1, so that equal values still leave room for chance."""
    shares = ("truncated/", "refused/", "cooperation/", "pass@")
    return measure.startswith(shares) or measure.endswith(("solved", "tests_passed"))


def estimate_of(measure: str, scores: ArrayLike) -> Estimate:
    """Estimate a measure from scores of shape (tasks,) or (seeds, tasks)."""
    return share(scores) if is_share(measure) else bootstrap(scores)


def _last_info(row: Row) -> Mapping[str, float]:
    info: Mapping[str, float] = row["groups"][-1]["infos"][0]
    return info


def _tests(row: Row) -> dict[str, float]:
    info = _last_info(row)
    if not info.get("tests_total"):
        return {}
    return {
        "tests_passed": info["tests_passed"] / info["tests_total"],
        "all_tests_passed": float(passed(row)),
    }


def _cooperation(row: Row) -> dict[str, float]:
    info = _last_info(row)
    if len(row["groups"][-1]["completions"]) < 2:
        return {}
    return {
        f"cooperation/{name}": info[f"reward/{name}"] / points + 0.0  # 0.0 / -0.5 is -0.0
        for name, points in COOPERATION.items()
        if f"reward/{name}" in info
    }


def _refusals(row: Row) -> dict[str, float]:
    """Compute the share of each agent's completions that a remote model refused."""
    refusals: dict[str, list[bool]] = {}
    for group in row["groups"]:
        for agent, reasons in group["finish_reasons"].items():
            refusals.setdefault(agent, []).extend(reason == REFUSAL for reason in reasons)
    return {f"refused/{agent}": sum(flags) / len(flags) for agent, flags in refusals.items()}


def _tokens(row: Row) -> dict[str, float]:
    """Count the tokens of an episode, sampled and of prompts, by agent and in all, as far as they are known."""
    totals: dict[str, float] = {}
    for name in ("tokens", "prompt_tokens"):
        turns: list[dict[str, int | None]] = row.get(name, [{}])  # older rows count no prompts
        of_agents = {}
        for agent in turns[0]:
            counts = [turn[agent] for turn in turns]
            if None not in counts:
                of_agents[f"{name}/{agent}"] = float(sum(filter(None, counts)))
        if of_agents and len(of_agents) == len(turns[0]):
            of_agents[name] = sum(of_agents.values())
        totals |= of_agents
    return totals
