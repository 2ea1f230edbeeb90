"""Known numbers of an environment, and its exploits: scripted teams that are played and compared with bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from llm_decpomdp.benchmarks.config.errors import ConfigError, raise_config_errors
from llm_decpomdp.benchmarks.evaluation.folder import interval
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, bootstrap
from llm_decpomdp.envs.worlds.strategies import NUMBERS, Strategy, play
from llm_decpomdp.registry import make_family
from llm_decpomdp.utils.text import plain

TOLERANCE = 1e-6


@dataclass(frozen=True)
class StrategyScore:
    """The score of a strategy over tasks."""

    name: str
    score: Estimate
    exact: float | None
    """Mean of the exact expected scores, where they can be computed."""
    limit: float | None
    """Mean of upper bounds of the best such team's score, for a known number that is not exact."""
    bound: str
    """Strategy that it must not beat; empty for none."""
    problem: str = ""
    """What is wrong: a bound that it beats, or an exact value that it does not have."""


def check_strategies(
    env_id: str, arguments: Mapping[str, Any], tasks: int | None = None, seed: int = 0
) -> list[StrategyScore]:
    """Play all strategies that an environment declares, over all tasks or the first ones.

    Raises:
        ConfigError: If an argument is not valid, or the environment declares no strategies.
    """
    with raise_config_errors():
        env = make_family(env_id, **arguments)
        task_ids = [task.task_id for task in env.unwrapped.tasks.tasks[:tasks]]
    strategies: Mapping[str, Strategy] = getattr(env.unwrapped.reward, "strategies", {})
    if not strategies:
        raise ConfigError(
            f"{env_id} declares no strategies, so it has no known numbers: take an environment whose reward has "
            "the attribute `strategies`, such as build-word-v0"
        )
    played: dict[str, list[float]] = {}
    for name, strategy in strategies.items():
        changed_env = make_family(env_id, **{**arguments, **strategy.changes})
        played[name] = [play(changed_env, task_id, strategy, seed) for task_id in task_ids]
    rows = [env.unwrapped.tasks.find(task_id) for task_id in task_ids]

    def scores_of(function: Callable[[Any], float] | None) -> list[float] | None:
        return None if function is None else [function(task) for task in rows]

    exact = {name: scores_of(strategy.exact) for name, strategy in strategies.items()}
    return [
        _compare(name, strategy, played, exact, scores_of(strategy.limit))
        for name, strategy in strategies.items()
    ]


def _compare(
    name: str,
    strategy: Strategy,
    played: Mapping[str, Sequence[float]],
    exact: Mapping[str, Sequence[float] | None],
    limits: Sequence[float] | None,
) -> StrategyScore:
    scores, exact_scores = played[name], exact[name]
    default = "" if name == "optimum" else "optimum" if name in NUMBERS else "alone"
    bound = strategy.bound or (default if default in played else "optimum")
    problem = ""
    # Differences by task: tasks may differ much more than a wrong score differs from its exact value.
    if exact_scores is not None and not _is_zero(_differences(scores, exact_scores)):
        problem = f"the exact value is {_mean(exact_scores):.4f}"
    if limits is not None and _beats(scores, scores, limits):
        problem = f"exceeds its limit, which is {_mean(limits):.4f}"
    if bound and name != bound and _beats(scores, played[bound], exact[bound]):
        problem = f"beats {bound}, which earns {_mean(exact[bound] or played[bound]):.4f}"
    return StrategyScore(
        name,
        bootstrap(scores),
        None if exact_scores is None else _mean(exact_scores),
        None if exact_scores is not None or limits is None else _mean(limits),
        bound,
        problem,
    )


def _beats(scores: Sequence[float], played: Sequence[float], exact: Sequence[float] | None) -> bool:
    """Check whether scores are above a bound; if the bound is an expectation, by more than chance."""
    if exact is None or max(map(abs, _differences(played, exact))) <= TOLERANCE:
        return _mean(scores) > _mean(played) + TOLERANCE
    low = bootstrap(_differences(scores, exact)).low
    return low is not None and low > TOLERANCE


def _differences(scores: Sequence[float], others: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(scores, others, strict=True)]


def _is_zero(differences: Sequence[float]) -> bool:
    """Check whether the mean of differences is 0, up to chance and rounding."""
    estimate = bootstrap(differences)
    # A single task has no interval, so its difference itself must be 0.
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return low <= TOLERANCE and high >= -TOLERANCE


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores)


def table(env_id: str, entries: Sequence[StrategyScore]) -> Table:
    """Tabulate the strategies of an environment for a terminal, those with a problem in red."""
    title = f"{env_id}, {entries[0].score.units} tasks"
    grid = Table("strategy", "score", "95 %", "exact", "bound", "", title=title)
    for entry in entries:
        score, exact = entry.score, ""
        if entry.limit is not None:  # not known exactly, but proven to lie between these
            exact = f"{score.value:.3f} to {entry.limit:.3f}"
        elif entry.exact is not None:
            exact = f"{entry.exact:.3f}"
        cells = (f"{score.value:.3f}", interval(score), exact, entry.bound)
        problem = plain(entry.problem or "ok")
        grid.add_row(entry.name, *cells, problem, style="red" if entry.problem else "")
    return grid
