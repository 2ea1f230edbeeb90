"""The gain of a team over a single agent, task by task, from two evaluations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table

from llm_decpomdp.benchmarks.analysis import credit_summary
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.baselines import find_baseline_name, single_agent_matched
from llm_decpomdp.benchmarks.evaluation.folder import (
    EvaluationResult,
    estimate_text,
    number,
    read_evaluation,
)
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    MethodComparison,
    compare,
    paired_difference,
    share,
)
from llm_decpomdp.utils.storage import write_atomically, write_csv
from llm_decpomdp.utils.text import plain

SHOWN = 30
"""Number of tasks that the terminal shows."""

MEASURES = ("pass@1", "tests_passed")
"""Measures that a team and a single agent share: their rewards have different maxima."""


@dataclass(frozen=True)
class Gain:
    """A measure under both evaluations."""

    single: Estimate
    team: Estimate
    comparison: MethodComparison
    """Comparison of the team with the single agent, over the same tasks."""
    of_task: Mapping[str, Estimate]
    """Differences by task, samples resampled."""


@dataclass(frozen=True)
class Necessity:
    """The gain of two or more agents over one."""

    matched: bool
    """True if the single agent may write as many tokens as the team of its configuration."""
    tokens: Mapping[str, float | None]
    """Sampled tokens of an episode of `single` and `team`, on average; `None` where they are not known."""
    gains: Mapping[str, Gain]
    """Gains by measure; tasks without tests have no `tests_passed`."""
    suffices: tuple[str, ...]
    """The tasks that one agent passes, at least as often as the team."""
    needs_team: tuple[str, ...]
    """The tasks that the team passes more often than one agent."""
    unsolved: tuple[str, ...]
    """The tasks that neither ever passes."""
    dispensable: Mapping[str, Estimate]
    """For each agent the share of the team's passing episodes that pass without it, too; empty where nobody has
    asked `llm-decpomdp analyze credit`."""


def necessity(team: EvaluationResult, single: EvaluationResult) -> Necessity:
    """Compare a team with a single agent on the same tasks.

    Args:
        team: An evaluation of two or more agents.
        single: One of a single agent, best of the baseline `single_agent_matched`.

    Raises:
        ConfigError: If the agents are not several and one, or the tasks are not the same.
    """
    _check(team, single)
    of_single, of_team = single.pass_at_k(1), team.pass_at_k(1)
    gains = {"pass@1": _gain(_flags(single), _flags(team))}
    if "tests_passed" in single.values and "tests_passed" in team.values:
        gains["tests_passed"] = _gain(single.values["tests_passed"], team.values["tests_passed"])
    points = credit_summary.read_credit(team.folder)
    agents = points[-1].agents if points else {}
    return Necessity(
        matched=find_baseline_name(single.manifest["identity"]["about"])
        == single_agent_matched.__name__,
        tokens={"single": _tokens(single), "team": _tokens(team)},
        gains=gains,
        suffices=tuple(t for t in of_single if of_single[t] >= of_team[t] and of_single[t] > 0),
        needs_team=tuple(task for task in of_single if of_team[task] > of_single[task]),
        unsolved=tuple(task for task in of_single if of_single[task] == of_team[task] == 0),
        dispensable={a: of["dispensable"] for a, of in agents.items() if "dispensable" in of},
    )


def _check(team: EvaluationResult, single: EvaluationResult) -> None:
    sizes = [len(evaluation.manifest["identity"]["team"]) for evaluation in (team, single)]
    if sizes[0] < 2 or sizes[1] != 1:
        raise ConfigError(
            f"{team.folder} has {sizes[0]} agents and {single.folder} {sizes[1]}: name the evaluation of a team, "
            "then that of a single agent (llm-decpomdp eval --baseline single_agent_matched)"
        )
    unshared = set(team.tasks) ^ set(single.tasks)
    if unshared:
        raise ConfigError(
            f"both must play the same tasks, and {len(unshared)} are in one alone, such as {min(unshared)!r}: "
            "evaluate both with equal --split and --tasks"
        )
    first, second = (
        {**evaluation.manifest["identity"]["environment"]} for evaluation in (team, single)
    )
    differing = [
        key
        for key in {**first, **second}
        if first.get(key) != second.get(key) and key not in ("num_agents", "channel")
    ]
    if differing:
        details = "; ".join(f"{key} is {first.get(key)} and {second.get(key)}" for key in differing)
        raise ConfigError(f"the team and the single agent played different environments: {details}")
    # Equal task names may hide other problems.
    prints = [evaluation.manifest["data"]["eval"]["fingerprint"] for evaluation in (team, single)]
    if prints[0] != prints[1]:
        raise ConfigError(f"the tasks differ: their fingerprints are {prints[0]} and {prints[1]}")


def _flags(evaluation: EvaluationResult) -> dict[str, tuple[float, ...]]:
    return {task: tuple(map(float, flags)) for task, flags in evaluation.passes.items()}


def _tokens(evaluation: EvaluationResult) -> float | None:
    if "tokens" not in evaluation.values:
        return None
    means = evaluation.means("tokens")
    return sum(means.values()) / len(means)


def _gain(single: Mapping[str, Sequence[float]], team: Mapping[str, Sequence[float]]) -> Gain:
    tasks = [task for task in single if task in team]
    means = [[float(np.mean(of[task])) for task in tasks] for of in (single, team)]
    return Gain(
        share(means[0]),
        share(means[1]),
        compare(*means),
        {
            task: paired_difference(_column(single[task]), _column(team[task])).within(-1.0, 1.0)
            for task in tasks
        },
    )


def _column(samples: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the samples of a task as (S, 1): those of two methods are drawn independently."""
    return np.asarray(samples, dtype=np.float64)[:, None]


def compare_folders(team: Path, single: Path) -> Necessity:
    """Compare two evaluations, and write `necessity.json` and `necessity.csv` into the folder of the team.

    Raises:
        ConfigError: If a folder holds no complete evaluation, or as `necessity`.
    """
    result = necessity(read_evaluation(team), read_evaluation(single))
    content = {"team": str(team), "single": str(single), **asdict(result)}
    write_atomically(team / "necessity.json", json.dumps(content, indent=2) + "\n")
    head = ["measure", "task", "gain", "low", "high"]
    rows = [
        [measure, task, difference.value, difference.low, difference.high]
        for measure, gain in result.gains.items()
        for task, difference in gain.of_task.items()
    ]
    write_csv(team / "necessity.csv", head, rows)
    return result


def tables(result: Necessity) -> Group:
    """Return the result for a terminal: overall, then task by task, the largest gains first."""
    overall = Table(
        "measure", "single agent", "team", "gain", "team better", title="over all tasks"
    )
    for measure, gain in result.gains.items():
        difference, better = gain.comparison.difference, gain.comparison.improvement
        cells = [gain.single, gain.team, difference, better]
        overall.add_row(measure, *map(estimate_text, cells))
    tasks = Table("task", *result.gains, title="gain of the team, task by task")
    first = result.gains["pass@1"].of_task
    order = sorted(first, key=lambda task: -first[task].value)
    for task in order[:SHOWN]:
        columns = [gain.of_task.get(task) for gain in result.gains.values()]
        tasks.add_row(
            plain(task), *("none" if gain is None else estimate_text(gain) for gain in columns)
        )
    more = [f"... and {len(order) - SHOWN} more in necessity.csv"] if len(order) > SHOWN else []
    return Group(*_summary(result), overall, tasks, *more)


def _summary(result: Necessity) -> list[str]:
    count = len(result.suffices) + len(result.needs_team) + len(result.unsolved)
    lines = [
        f"Of {count} tasks a single agent suffices on {len(result.suffices)}: it passes, and at least as often "
        f"as the team. The team passes {len(result.needs_team)} more often. Neither ever passes "
        f"{len(result.unsolved)}."
    ]
    tokens = [result.tokens[name] for name in ("single", "team")]
    amounts = ", ".join("unknown" if mean is None else number(mean) for mean in tokens)
    limit = "the token limits of its configuration's team together"
    if not result.matched:
        limit = "a token limit of its own: NOT matched"
    lines.append(f"The single agent had {limit}. Tokens an episode, single and team: {amounts}.")
    for agent, estimate in result.dispensable.items():
        lines.append(
            f"Of what the team passes, this share passes without {agent} too: {estimate_text(estimate)}."
        )
    return lines
