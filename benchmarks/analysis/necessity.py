"""The gain of a team over a single agent by task, from two evaluations, and how much sooner a team answers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Group
from rich.table import Table

from llm_decpomdp.benchmarks.analysis import credit_summary
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.baselines import MATCHED, find_baseline_name
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

MEASURES = ("pass@1", "tests_passed")
"""Measures to compare a team with a single agent, whose rewards have different maxima."""


MARGIN = 0.03
"""Largest loss of tests passed, or else of pass@1, at which a team counts as no worse than a single agent."""

SEQUENTIAL = "sequential_tokens"


@dataclass(frozen=True)
class Gain:
    """A measure under both evaluations."""

    single: Estimate
    team: Estimate
    comparison: MethodComparison
    of_task: Mapping[str, Estimate]
    """Differences by task, with intervals over samples."""


@dataclass(frozen=True)
class Necessity:
    """The gain of a team over a single agent."""

    matched: bool
    """True if the single agent has the token limit of the whole team."""
    tokens: Mapping[str, float | None]
    """Mean sampled tokens of an episode of `single` and `team`; `None` if unknown."""
    gains: Mapping[str, Gain]
    """Gains by measure; `tests_passed` only for tasks with tests."""
    margin: float
    no_worse: bool
    """True if the interval of the team's gain lies above the negative margin."""
    speedup: Estimate | None
    """Mean sequential tokens of the single agent over those of the team; `None` if unknown. It means little unless
    the team is no worse."""
    suffices: tuple[str, ...]
    """Tasks that the single agent passes, at least as often as the team."""
    needs_team: tuple[str, ...]
    """Tasks that the team passes more often than the single agent."""
    unsolved: tuple[str, ...]
    dispensable: Mapping[str, Estimate]
    """For each agent the share of the team's passing episodes that pass without it; empty without results of
    `llm-decpomdp analyze credit`."""


def necessity(
    team: EvaluationResult, single: EvaluationResult, margin: float = MARGIN
) -> Necessity:
    """Compare a team with a single agent on the same tasks.

    Args:
        team: An evaluation of at least two agents.
        single: An evaluation of a single agent, preferably of the baseline `single_agent_matched`.
        margin: Largest loss of tests passed, or of pass@1 without tests, at which the team counts as no worse.

    Raises:
        ConfigError: If the numbers of agents are wrong, the tasks differ, or the margin is not in [0, 1].
    """
    if not 0 <= margin <= 1:
        raise ConfigError(f"the margin is a loss of a share, from 0 to 1, got {margin}")
    _check(team, single)
    evaluations = {"single": single, "team": team}
    of_single, of_team = single.pass_at_k(1), team.pass_at_k(1)
    # Each outcome instead of the rate of the task, as the interval of a task is over its samples.
    flags = [
        {task: tuple(map(float, of)) for task, of in evaluation.passes.items()}
        for evaluation in evaluations.values()
    ]
    gains = {"pass@1": _gain(*flags)}
    if all("tests_passed" in evaluation.values for evaluation in evaluations.values()):
        gains["tests_passed"] = _gain(single.values["tests_passed"], team.values["tests_passed"])
    tokens = {name: of.means("tokens") for name, of in evaluations.items() if "tokens" in of.values}
    least = gains.get("tests_passed", gains["pass@1"]).comparison.difference.low
    points = credit_summary.read_credit(team.folder)
    # The last measurement point is of the final team.
    agents = points[-1].agents if points else {}
    baseline = find_baseline_name(single.manifest["identity"]["about"])
    return Necessity(
        matched=baseline == MATCHED,
        tokens={
            n: sum(tokens[n].values()) / len(tokens[n]) if n in tokens else None
            for n in evaluations
        },
        gains=gains,
        margin=margin,
        no_worse=least is not None and least > -margin,
        speedup=_speedup(team, single),
        suffices=tuple(t for t in of_single if of_single[t] >= of_team[t] and of_single[t] > 0),
        needs_team=tuple(task for task in of_single if of_team[task] > of_single[task]),
        unsolved=tuple(task for task in of_single if of_single[task] == of_team[task] == 0),
        dispensable={a: of["dispensable"] for a, of in agents.items() if "dispensable" in of},
    )


def _speedup(team: EvaluationResult, single: EvaluationResult) -> Estimate | None:
    """Estimate the ratio of mean sequential tokens, over tasks of both; `None` if unknown or without tokens."""
    if not all(SEQUENTIAL in evaluation.values for evaluation in (team, single)):
        return None
    of_team, of_single = team.means(SEQUENTIAL), single.means(SEQUENTIAL)
    tasks = [task for task in of_single if task in of_team]
    first, second = ([of[task] for task in tasks] for of in (of_team, of_single))
    if not min(first + second):  # an empty answer has no logarithm
        return None
    # The difference of the logarithms of two means is the logarithm of their ratio.
    logs = paired_difference(first, second, lambda values: np.log(values.mean(-1)))
    low, high = (None if end is None else math.exp(end) for end in (logs.low, logs.high))
    return Estimate(math.exp(logs.value), low, high, logs.units)


def _check(team: EvaluationResult, single: EvaluationResult) -> None:
    sizes = [len(evaluation.manifest["identity"]["team"]) for evaluation in (team, single)]
    if sizes[0] < 2 or sizes[1] != 1:
        raise ConfigError(
            f"{team.folder} has {sizes[0]} agents and {single.folder} {sizes[1]}: name the evaluation of a team, "
            "then one of a single agent (llm-decpomdp eval --baseline single_agent_matched)"
        )
    unshared = set(team.tasks) ^ set(single.tasks)
    if unshared:
        raise ConfigError(
            f"both evaluations need the same tasks, and {len(unshared)} are only in one, such as "
            f"{min(unshared)!r}: evaluate both with equal --split and --tasks"
        )
    first, second = (e.manifest["identity"]["environment"] for e in (team, single))
    differing = [
        f"{key} is {first.get(key)} and {second.get(key)}"
        for key in {**first, **second}
        # A single agent has nobody to talk to or to wait for.
        if first.get(key) != second.get(key) and key not in ("num_agents", "channel", "order")
    ]
    if differing:
        details = "; ".join(differing)
        raise ConfigError(f"the team and the single agent played different environments: {details}")
    # Equal names may belong to different problems.
    prints = [evaluation.manifest["data"]["eval"]["fingerprint"] for evaluation in (team, single)]
    if prints[0] != prints[1]:
        raise ConfigError(f"the tasks differ: their fingerprints are {prints[0]} and {prints[1]}")


def _gain(single: Mapping[str, Sequence[float]], team: Mapping[str, Sequence[float]]) -> Gain:
    tasks = [task for task in single if task in team]
    means = [[float(np.mean(of[task])) for task in tasks] for of in (single, team)]
    differences = {}
    for task in tasks:
        # The shape (S, 1): the samples of one task take the place of seeds.
        first, second = (np.asarray(of[task], dtype=np.float64)[:, None] for of in (single, team))
        differences[task] = paired_difference(first, second).within(-1.0, 1.0)
    return Gain(share(means[0]), share(means[1]), compare(*means), differences)


def compare_folders(team: Path, single: Path, margin: float = MARGIN) -> Necessity:
    """Compare two evaluations, and write `necessity.json` and `necessity.csv` into the folder of the team.

    Raises:
        ConfigError: If a folder holds no complete evaluation, or as `necessity`.
    """
    result = necessity(read_evaluation(team), read_evaluation(single), margin)
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
    """Return the result for a terminal: overall, then by task, the largest gains first."""
    head = ("measure", "single agent", "team", "gain", "P(team better)")
    overall = Table(*head, title="over all tasks")
    for measure, gain in result.gains.items():
        difference, better = gain.comparison.difference, gain.comparison.improvement
        cells = [gain.single, gain.team, difference, better]
        overall.add_row(measure, *map(estimate_text, cells))
    tasks = Table("task", *result.gains, title="gain of the team by task")
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
    tokens = ", ".join(
        "unknown" if mean is None else number(mean)
        for mean in (result.tokens[name] for name in ("single", "team"))
    )
    limit = (
        "the sum of the team's token limits"
        if result.matched
        else "its own token limit: NOT matched"
    )
    return [
        f"Of {count} tasks, a single agent suffices for {len(result.suffices)} (it passes at least as often as "
        f"the team), the team passes {len(result.needs_team)} more often, and neither ever passes "
        f"{len(result.unsolved)}.",
        f"The single agent had {limit}. Tokens per episode, single and team: {tokens}.",
        *_speedup_lines(result),
        *(
            f"Share of the team's passing episodes that also pass without {agent}: {estimate_text(estimate)}."
            for agent, estimate in result.dispensable.items()
        ),
    ]


def _speedup_lines(result: Necessity) -> list[str]:
    if result.speedup is None:
        return []
    measure = "tests_passed" if "tests_passed" in result.gains else "pass@1"
    verdict = (
        f"The team's {measure} is no worse by more than {result.margin} (95 % interval of the gain)."
        if result.no_worse
        else f"The team's {measure} may be worse by more than {result.margin}, so its time to answer is no gain."
    )
    return [f"Speedup of the team in sequential tokens: {estimate_text(result.speedup)}. {verdict}"]
