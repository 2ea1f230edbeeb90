"""Statistics of evaluations: intervals, comparisons, and the number of seeds that they need.

The units of replication are seeds (whole trainings) and tasks, never single episodes: a thousand samples of ten
tasks tell nothing about an eleventh one. Scores come as arrays of shape (S, T), one mean score for each of S seeds
and T tasks, or (T,) for a single seed. The same T tasks are played under every seed, so both are crossed, and each
replicate of the bootstrap draws seeds with replacement and, once for all of them, tasks with replacement (the
pigeonhole bootstrap of Owen 2007, arXiv 0712.1111; too wide, never too narrow, in what neither seeds nor tasks
explain). Drawing other tasks for each seed would divide the part of the tasks by S. The samples of a task are
averaged before: their chance is in the means already, and drawing them again would count it twice.

No resampling makes many seeds of few: the interval of S seeds lies between the lowest and the highest of them, and
those enclose the true median in 1 - 2^(1 - S) of all cases: 75 % for three seeds, 94 % for five. Where seeds
differ more than tasks, intervals of 95 % contained the true value in 76 % of simulated cases with three seeds, in
84 % with five and in 90 % with ten; where tasks differ more, in 92 to 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llm_decpomdp.seeding import stream

LEVEL = 0.95
REPLICATES = 2000

MAX_ELEMENTS = 2_000_000
"""Numbers that are resampled at once: a bound for memory."""

Array = NDArray[np.float64]

Statistic = Callable[[Array], Array]
"""From replicates of all scores, (R, N), to a number for each, (R,)."""


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float | None
    """`None`, as `high`, where there is nothing to resample: a single unit."""
    high: float | None
    units: int
    """Number of seeds that the interval rests on; of tasks, where there is one seed."""

    def excludes(self, value: float) -> bool:
        """Check whether there is an interval, and `value` outside of it."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


def mean(values: Array) -> Array:
    """Compute the mean of each row."""
    return np.asarray(values.mean(-1))


def interquartile_mean(values: Array) -> Array:
    """Compute the mean of the middle half of each row: floor(N / 4) scores are cut off at either end.

    Less moved by outliers than the mean, and less noisy than the median (Agarwal et al. 2021, arXiv 2108.13264).
    """
    quarter = values.shape[-1] // 4
    return mean(np.sort(values, -1)[..., quarter : values.shape[-1] - quarter])


def bootstrap(
    scores: ArrayLike,
    statistic: Statistic = mean,
    *,
    level: float = LEVEL,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Estimate:
    """Estimate a statistic of all scores, with its percentile interval (Efron 1979) over seeds and tasks.

    Scores that are all equal give an interval of no width, for which see `share`.

    Args:
        scores: (S, T) or (T,); any number of either.
        statistic: The number to estimate.
        level: The probability that the interval should hold the true value with.
        replicates: Number of resamples.
        seed: Decides the resampling.

    Raises:
        ValueError: If there are no scores, one is not finite, or `level` lies outside (0, 1).
    """

    def of_all(table: Array) -> Array:
        return statistic(table.reshape(len(table), -1))

    return _estimate([_table(scores)], of_all, level, replicates, seed)


def share(scores: ArrayLike) -> Estimate:
    """Estimate the mean of scores in [0, 1] as `bootstrap` does, with room for chance where all are equal.

    Where all n scores of the tasks are 0 (or all are 1), a share of up to 1 - (1 - LEVEL)^(1/n) could have hidden
    that well: about 3 / n (Hanley and Lippman-Hand 1983, JAMA 249, 1743).
    """
    table = _table(scores)
    return _with_hidden(bootstrap(table), table.shape[1])


def _with_hidden(estimate: Estimate, tasks: int) -> Estimate:
    """Give the mean of scores in [0, 1] the interval of `share` where all are 0 or all are 1."""
    if estimate.value not in (0.0, 1.0):
        return estimate
    hidden = 1 - (1 - LEVEL) ** (1 / tasks)
    low, high = (0.0, hidden) if estimate.value == 0.0 else (1 - hidden, 1.0)
    return Estimate(estimate.value, low, high, estimate.units)


def paired_difference(first: ArrayLike, second: ArrayLike, statistic: Statistic = mean) -> Estimate:
    """Estimate the statistic of `second` minus that of `first`, over the same tasks.

    Tasks are drawn once for both, which takes the difficulty of the tasks out of the interval; seeds are drawn
    for each alone, for trainings of two methods have nothing in common.

    Args:
        first: (S, T) or (T,).
        second: (S', T) or (T,); the t-th task is that of `first`.
        statistic: The number to compare.

    Raises:
        ValueError: If the numbers of tasks differ, or as `bootstrap`.
    """

    def differences(x: Array, y: Array) -> Array:
        flat = [table.reshape(len(table), -1) for table in (x, y)]
        return statistic(flat[1]) - statistic(flat[0])

    return _estimate(_pair(first, second), differences)


def probability_of_improvement(first: ArrayLike, second: ArrayLike) -> Estimate:
    """Estimate the probability that a run of `second` beats one of `first` on a task drawn at random.

    The mean over the tasks of P(Y > X) + P(Y = X) / 2 over all pairs of a seed of each (the statistic of Mann and
    Whitney over S S', as in Agarwal et al. 2021). Where all are won, or none, the interval is that of `share`.
    Arguments and errors as in `paired_difference`.
    """
    tables = _pair(first, second)
    return _with_hidden(_estimate(tables, _wins), tables[0].shape[1])


def _wins(first: Array, second: Array) -> Array:
    x, y = first[:, :, None, :], second[:, None, :, :]  # (R, S, 1, T), (R, 1, S', T)
    return np.asarray(((y > x) + 0.5 * (y == x)).mean((1, 2, 3)))


def seeds_needed(deviation: float, half_width: float, *, level: float = LEVEL) -> int:
    """Compute the number n of seeds whose mean has an interval of at most +- `half_width`.

    n = (z s / h)^2 + z^2 / 2, rounded up, with z the normal quantile of the level: its second part stands for the
    wider tails of Student's distribution (Guenther 1981, The American Statistician 35, 243).

    Args:
        deviation: s, the standard deviation of one seed's score; for a difference of two methods, which both get
            n seeds, the root of the sum of both squares.
        half_width: h, above 0.
        level: Of the interval.

    Raises:
        ValueError: If an argument is out of its range.
    """
    if not (half_width > 0 and deviation >= 0 and math.isfinite(deviation)):
        raise ValueError(
            f"half_width must be above 0 and deviation at least 0, got {half_width} and {deviation}"
        )
    z = NormalDist().inv_cdf((1 + level) / 2)
    return max(2, math.ceil((z * deviation / half_width) ** 2 + z**2 / 2))


@dataclass(frozen=True)
class Comparison:
    """Two methods over the same tasks."""

    difference: Estimate
    """The mean of the second minus that of the first."""
    improvement: Estimate
    """See `probability_of_improvement`."""
    seeds_needed: int | None
    """Seeds of each method with which a difference as large as this one would be told from none in about
    half of all cases, as far as seeds decide it. `None` where the interval tells already, where no method has
    several seeds, where there is no difference at all, and where `more_tasks` are needed instead."""
    more_tasks: bool
    """True if there are enough seeds, and the chance of the tasks leaves the interval too wide to tell."""


def compare(first: ArrayLike, second: ArrayLike) -> Comparison:
    """Compare `second` with `first`; arguments and errors as in `paired_difference`."""
    difference = paired_difference(first, second)
    improvement = probability_of_improvement(first, second)
    several = [table for table in _pair(first, second) if len(table) > 1]
    if not several or not difference.value or difference.excludes(0.0):
        return Comparison(difference, improvement, None, more_tasks=False)
    deviation = math.hypot(*(float(table.mean(1).std(ddof=1)) for table in several))
    seeds = seeds_needed(deviation, abs(difference.value))
    enough = seeds <= min(map(len, several))
    return Comparison(difference, improvement, None if enough else seeds, more_tasks=enough)


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """Compute the chance that at least one of k samples passes, without bias from n samples of which c passed.

    1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374), as a product that cannot overflow.

    Raises:
        ValueError: If `k` lies outside [1, samples], or `passed` outside [0, samples].
    """
    if not (1 <= k <= samples and 0 <= passed <= samples):
        raise ValueError(
            f"pass@k needs 1 <= k <= samples and 0 <= passed <= samples, got k={k}, samples={samples}, "
            f"passed={passed}"
        )
    none_passed = 1.0
    for i in range(k):
        none_passed *= max(0, samples - passed - i) / (samples - i)
    return 1.0 - none_passed


def _table(scores: ArrayLike) -> Array:
    """Return the scores as (S, T)."""
    table = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError(
            f"scores must be finite numbers of shape (seeds, tasks), at least one, got shape {table.shape}"
        )
    return table


def _pair(first: ArrayLike, second: ArrayLike) -> list[Array]:
    x, y = _table(first), _table(second)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"both must have the same tasks: there are {x.shape[1]} and {y.shape[1]}")
    return [x, y]


def _estimate(
    tables: Sequence[Array],
    statistic: Callable[..., Array],
    level: float = LEVEL,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Estimate:
    """Estimate a statistic of tables (R, S, T), with seeds drawn for each of them and tasks for all together."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    value = float(statistic(*(table[None] for table in tables))[0])
    tasks, seeds = tables[0].shape[1], [len(table) for table in tables]
    if tasks == max(seeds) == 1:
        return Estimate(value, None, None, 1)
    rng, samples = stream(seed, "bootstrap"), []
    at_once = max(1, MAX_ELEMENTS // (math.prod(seeds) * tasks))
    for first in range(0, replicates, at_once):
        count = min(at_once, replicates - first)
        columns = rng.integers(tasks, size=(count, 1, tasks))
        rows = [rng.integers(size, size=(count, size, 1)) for size in seeds]
        cells = [table[row, columns] for table, row in zip(tables, rows, strict=True)]  # (R, S, T)
        samples.append(statistic(*cells))
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(samples), [tail, 1 - tail])
    units = min((size for size in seeds if size > 1), default=tasks)
    return Estimate(value, float(low), float(high), units)
