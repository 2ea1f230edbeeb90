"""Refill of an update: starts whose rollouts teach nothing make room for further ones.

(The dynamic sampling of DAPO, arXiv 2503.14476.) All completions of a rollout that is solved or failed throughout
are worth the same: the update has less to learn from, and its gradient more noise. Refilled, an update weighs
problems by how often they teach something, not by how often they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start


def further_starts(
    problems: Sequence[Start], batch: Sequence[Start], rng: np.random.Generator
) -> Iterator[Start]:
    """Draw the problems that a batch lacks, each once; every process has a share of its own of them.

    Args:
        problems: Those of the run.
        batch: The starts of the update, of all processes.
        rng: The same in all processes.
    """
    order = (problems[index] for index in rng.permutation(len(problems)))
    return iter(processes.shard([start for start in order if start not in batch]))


def refill(
    rollouts: Sequence[Rollout],
    rounds: int,
    fresh: Iterator[Start],
    teaches: Callable[[Rollout], bool],
    play: Callable[[Sequence[Start]], list[Rollout]],
) -> tuple[list[Rollout], list[Rollout]]:
    """Put further rollouts in the place of those that teach nothing; no process waits for another.

    Args:
        rollouts: One for each start of this process.
        rounds: Most times that what teaches nothing is replaced.
        fresh: Further starts; where they end, what is left stays.
        teaches: Whether a rollout teaches something.
        play: Plays a rollout from each start.

    Returns:
        The rollouts to learn from, as many as before, and all that were played here.
    """
    current, further = list(rollouts), []
    for _ in range(rounds):
        silent = [index for index, rollout in enumerate(current) if not teaches(rollout)]
        starts = list(islice(fresh, len(silent)))
        if not starts:
            break
        replacements = play(starts)
        further += replacements
        for index, rollout in zip(silent, replacements, strict=False):
            current[index] = rollout
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
