"""The warm start of a run: its demonstrations, and the phase that learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llm_decpomdp.algorithms import Start
from llm_decpomdp.algorithms.training.sft_data import (
    Demonstration,
    draw_share,
    read_demonstrations,
    reference_demonstrations,
)
from llm_decpomdp.algorithms.training.warm_start import GOLD, PASSES, make_warm_start
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.policy import Team

if TYPE_CHECKING:
    from llm_decpomdp.algorithms.training.sft import SupervisedTraining
    from llm_decpomdp.benchmarks.runs.setup import ResolvedRun

Demonstrations = Sequence[Demonstration] | None
"""Those of the warm start, none if it is over or samples its own; `None` without one."""


def load_demonstrations(run: ResolvedRun) -> Demonstrations:
    """Return the demonstrations of the warm start; none if the team samples its own, `None` without one.

    Raises:
        ConfigError: If there are none, or a file has another form.
    """
    options, specs = run.config.warm_start, run.team.policies
    if options.source is None:
        return None
    if options.source == PASSES:
        return []
    learning = [a for a, name in run.team.agents.items() if specs[name].can_be_trained]
    try:
        if options.source != GOLD:
            lines = read_demonstrations(Path(options.source), run.train_env.possible_agents)
            return draw_share(lines, options.share, run.config.seed)
        starts = [Start(task_id=task.task_id) for task in run.train_env.tasks.tasks]
        share = draw_share(starts, options.share, run.config.seed)
        return reference_demonstrations(run.train_env, share, learning)
    except ValueError as error:
        there = options.source == GOLD or Path(options.source).exists()
        remedy = "" if there else f": give {GOLD}, {PASSES} or a JSONL file"
        raise ConfigError(f"warm_start.source: {error}{remedy}") from None


def sampled_problems(run: ResolvedRun) -> list[Start]:
    """Return the starts of the problems that expert iteration samples: its share, without the skipped ones."""
    tasks = [task.task_id for task in run.train_env.tasks.tasks]
    share = draw_share(tasks, run.config.warm_start.share, run.config.seed)
    return [Start(task_id=task) for task in share if task not in run.skipped]


def make_phase(
    run: ResolvedRun, team: Team, demonstrations: Sequence[Demonstration]
) -> SupervisedTraining:
    """Build the phase before the first update.

    Args:
        run: The run.
        team: A policy for each agent.
        demonstrations: Those of `load_demonstrations`; none if the phase is over.

    Raises:
        ValueError: As `make_warm_start`.
        TypeError: As `make_warm_start`.
    """
    return make_warm_start(
        run.train_env,
        team,
        run.config.warm_start,
        demonstrations,
        problems=sampled_problems(run),
        max_grad_norm=run.learner.max_grad_norm,
        seed=run.config.seed,
    )
