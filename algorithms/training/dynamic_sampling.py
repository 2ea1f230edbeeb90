"""Refill of an update: starts whose rollouts teach nothing make room for further ones.

(The dynamic sampling of DAPO, arXiv 2503.14476.) All completions of a rollout that is solved or failed throughout
are worth the same: the update has less to learn from, and its gradient more noise. Refilled, an update weighs
problems by how often they teach something, not by how often they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start


def draw_replacements(
    problems: Sequence[Start], batch: Sequence[Start], rng: np.random.Generator, shares: int
) -> list[Iterator[Start]]:
    """Draw the problems that a batch lacks, each once; every bundle has a share of its own of them.

    Args:
        problems: Those of the run.
        batch: The starts of the update, of all processes.
        rng: The same in all processes.
        shares: Number of bundles, of all processes.
    """
    order = (problems[index] for index in rng.permutation(len(problems)))
    fresh = [start for start in order if start not in batch]
    return [iter(fresh[index::shares]) for index in range(shares)]


def refill(
    rolled: Sequence[Sequence[Rollout]],
    rounds: int,
    fresh: Sequence[Iterator[Start]],
    has_learning_signal: Callable[[Rollout], bool],
    play: Callable[[int, Sequence[Sequence[Start]]], Sequence[Sequence[Rollout]]],
) -> tuple[list[list[Rollout]], list[list[Rollout]]]:
    """Put further rollouts in the place of those that teach nothing; no process waits for another.

    Args:
        rolled: The rollouts of each bundle of this process.
        rounds: Most times that what teaches nothing is replaced.
        fresh: Further starts for each bundle; where they end, what is left stays.
        has_learning_signal: Whether a rollout teaches something.
        play: Plays a round, counted from 1: a rollout from each start of each bundle.

    Returns:
        Of each bundle the rollouts to learn from, as many as before, and all that were played further.
    """
    current = [list(rollouts) for rollouts in rolled]
    further: list[list[Rollout]] = [[] for _ in rolled]
    for number in range(1, rounds + 1):
        silent = [
            [index for index, rollout in enumerate(rollouts) if not has_learning_signal(rollout)]
            for rollouts in current
        ]
        starts = [
            list(islice(source, len(indices)))
            for source, indices in zip(fresh, silent, strict=True)
        ]
        if not any(starts):
            break
        for rollout_batch, replacements in enumerate(play(number, starts)):
            further[rollout_batch] += replacements
            for index, rollout in zip(silent[rollout_batch], replacements, strict=False):
                current[rollout_batch][index] = rollout
    return current, further


def check_refill(
    rounds: int, problems: Sequence[Start], batches: Sequence[Sequence[Start]]
) -> None:
    """Raise a `ValueError` if no update could be refilled."""
    if rounds and not any(set(problems) - set(batch) for batch in batches):
        total = len(set(chain(problems, *batches)))
        raise ValueError(
            f"refill={rounds} draws problems that an update lacks, and every update has all {total} of the "
            "run: take fewer problems an update (prompts_per_update), or drop it"
        )
