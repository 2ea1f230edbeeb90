"""Statistics of evaluations: intervals, comparisons, and the number of seeds that they need.

The units of replication are seeds (whole trainings) and tasks, never single episodes: a thousand samples of ten
tasks say nothing about an eleventh task. Scores are arrays of shape (S, T), one mean score for each of S seeds
and T tasks, or (T,) for a single seed. Every seed plays the same T tasks. The samples of a task are averaged
before; their variance is part of the variance of the means, so resampling them would count it twice.

An interval has two parts, whose half-widths are added in quadrature, separately below and above the value (Zou and
Donner 2008, Statistics in Medicine 27, 1693):

- tasks: percentiles of the bootstrap over the tasks (Efron 1979), all seeds kept. With several seeds the distances
  are multiplied by sqrt(T / (T - 1)) t(T - 1) / z, for the number of tasks (the expanded percentile interval;
  Hesterberg 2015, The American Statistician 69, 371);
- seeds: t(v) times the standard error of the jackknife over the seeds (Tukey 1958), which for a mean is Student's
  interval of the S means of the seeds. v is S - 1; for two methods, the degrees of freedom of Welch (1947,
  Biometrika 34, 28).

The residual variance is in both parts, so intervals are too wide if there is no other variance. With two seeds the
half-width of a 95 % interval is 12.7 standard errors.

Share of simulated 95 % intervals without the true value, for a mean and (in brackets) for the difference of two
methods; 20 tasks, 4,000 draws a cell (standard error at most 0.004):

| standard deviations: seeds, tasks, rest | 2 seeds | 3 | 5 | 10 |
|---|---|---|---|---|
| 1, 0.2, 0.3 | 0.053 (0.007) | 0.050 (0.028) | 0.052 (0.037) | 0.048 (0.042) |
| 0.3, 0.3, 0.5 | 0.030 (0.003) | 0.029 (0.018) | 0.027 (0.026) | 0.035 (0.035) |
| 0.1, 1, 0.5 | 0.011 (0.001) | 0.024 (0.009) | 0.045 (0.009) | 0.046 (0.014) |
| 0, 1, 0.1 | 0.036 (0.000) | 0.053 (0.004) | 0.055 (0.006) | 0.050 (0.007) |

The scores of seeds are assumed to be normally distributed. For other distributions the shares are larger: for a
mean of exponential seeds 0.093, 0.113, 0.125 and 0.089 (2, 3, 5 and 10 seeds), and for seeds that score 0.9 in
four of five cases and 0.2 otherwise 0.195, 0.373, 0.323 and 0.101 (1,500 draws each).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llm_decpomdp.seeding import stream

LEVEL = 0.95
# With 2,000 resamples the end of a 95 % interval moves by about 3 % of its half-width from one seed
# to another; more would cost time without a visible change.
REPLICATES = 2000

# With 1,000 degrees of freedom t is 1.962 for a level of 0.95; the limit is 1.960.
MAX_FREEDOM = 1000

# Numbers that are resampled at once: 16 MB of float64 for each table.
MAX_ELEMENTS = 2_000_000

Array = NDArray[np.float64]

Statistic = Callable[[Array], Array]
"""From replicates of all scores, (R, N), to a number for each, (R,)."""


@dataclass(frozen=True)
class Estimate:
    """A number and its interval."""

    value: float
    low: float | None
    """`None`, as `high`, for a single unit."""
    high: float | None
    units: int
    """Number of seeds, or of tasks if there is one seed."""

    def excludes(self, value: float) -> bool:
        """Check whether there is an interval without `value`."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def within(self, least: float, most: float) -> Estimate:
        """Return the estimate with its interval limited to the range of possible values."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(least, self.low), high=min(most, self.high))


def value_of_communication(score: Estimate, numbers: Mapping[str, float]) -> Estimate | None:
    """Return the share of the way from the best score without messages to the optimum.

    (score - silent) / (optimum - silent) has the interval of the score, as both numbers are exact. It is negative
    for a team that is worse than the best silent one, and `None` where the numbers are unknown or equal.

    Args:
        score: Mean score of whole episodes.
        numbers: Known numbers of the environment, with `optimum` and `silent`.
    """
    silent, optimum = numbers.get("silent"), numbers.get("optimum")
    if silent is None or optimum is None or optimum <= silent:
        return None

    def scale(value: float | None) -> float | None:
        return None if value is None else (value - silent) / (optimum - silent)

    shared = (score.value - silent) / (optimum - silent)
    return Estimate(shared, scale(score.low), scale(score.high), score.units)


def mean(values: Array) -> Array:
    """Compute the mean of each row."""
    return np.asarray(values.mean(-1))


def interquartile_mean(values: Array) -> Array:
    """Compute the mean of the middle half of each row, without floor(N / 4) scores at either end.

    It is more robust than the mean and less noisy than the median (Agarwal et al. 2021, arXiv 2108.13264).
    """
    # As in rliable, whole scores are cut off, so fewer than four scores give the plain mean.
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
    """Estimate a statistic of all scores, with its interval over seeds and tasks (see the module).

    Equal scores give an interval of width 0; `share` widens it.

    Args:
        scores: (S, T) or (T,).
        statistic: The number to estimate.
        level: Nominal coverage of the interval.
        replicates: Number of resamples of the tasks.
        seed: Seed of the resampling.

    Raises:
        ValueError: If there are no scores, one is not finite, or `level` lies outside (0, 1).
    """

    def flat_statistic(table: Array) -> Array:
        return statistic(table.reshape(len(table), -1))

    return _estimate([_table(scores)], flat_statistic, level, replicates, seed)


def share(scores: ArrayLike) -> Estimate:
    """Estimate the mean of scores in [0, 1] as `bootstrap`, with a wider interval if all are 0 or all are 1.

    If all n tasks score 0, the upper end is 1 - (1 - LEVEL)^(1/n), about 3 / n (Hanley and Lippman-Hand 1983, JAMA
    249, 1743).
    """
    table = _table(scores)
    return _widen_extremes(bootstrap(table), table.shape[1])


def _widen_extremes(estimate: Estimate, tasks: int) -> Estimate:
    if estimate.value not in (0.0, 1.0):
        return estimate.within(0.0, 1.0)
    # The bootstrap of equal scores has no width, although the next task may differ.
    hidden = 1 - (1 - LEVEL) ** (1 / tasks)
    low, high = (0.0, hidden) if estimate.value == 0.0 else (1 - hidden, 1.0)
    return Estimate(estimate.value, low, high, estimate.units)


def paired_difference(first: ArrayLike, second: ArrayLike, statistic: Statistic = mean) -> Estimate:
    """Estimate the statistic of `second` minus that of `first`, over the same tasks.

    Tasks are resampled jointly, which removes the difficulty of the tasks from the interval. Seeds are resampled
    separately, since the trainings of two methods are independent.

    Args:
        first: (S, T) or (T,).
        second: (S', T) or (T,), with the same tasks.
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

    The mean over the tasks of P(Y > X) + P(Y = X) / 2 over all pairs of seeds (the statistic of Mann and Whitney
    over S S', as in Agarwal et al. 2021). At 0 and 1 the interval is that of `share`. Arguments and errors are
    those of `paired_difference`.
    """
    tables = _pair(first, second)
    return _widen_extremes(_estimate(tables, _wins), tables[0].shape[1])


def _wins(first: Array, second: Array) -> Array:
    x, y = first[:, :, None, :], second[:, None, :, :]  # (R, S, 1, T), (R, 1, S', T)
    return np.asarray(((y > x) + 0.5 * (y == x)).mean((1, 2, 3)))


def seeds_needed(
    deviation: float, half_width: float, *, methods: int = 1, level: float = LEVEL
) -> int:
    """Compute the minimum number n of seeds whose interval is at most +- `half_width`.

    The half-width is t(v) deviation / sqrt(n), with v = `methods` (n - 1) degrees of freedom of Student's
    distribution. The interval of a true difference of that size then excludes 0 in about half of all cases.

    Args:
        deviation: The standard deviation of one seed's score; for a difference of two methods, the root of the sum
            of both variances.
        half_width: Above 0.
        methods: Number of methods with n seeds each: 1 for a mean, 2 for a difference.
        level: Nominal coverage of the interval.

    Raises:
        ValueError: If an argument is out of its range.
    """
    if not (half_width > 0 and deviation >= 0 and math.isfinite(deviation)):
        raise ValueError(
            f"half_width must be above 0 and deviation at least 0, got {half_width} and {deviation}"
        )
    ratio = deviation / half_width
    # The normal quantile is below that of Student, so the search starts too low and only goes up.
    # At least 2, as one seed has no deviation.
    n = max(2, math.ceil((NormalDist().inv_cdf((1 + level) / 2) * ratio) ** 2))
    while student_quantile(level, methods * (n - 1)) * ratio > math.sqrt(n):
        n += 1
    return n


@dataclass(frozen=True)
class MethodComparison:
    """Two methods over the same tasks."""

    difference: Estimate
    """The mean of the second minus that of the first."""
    improvement: Estimate
    seeds_needed: int | None
    """Seeds of each method with which the interval of such a difference would exclude 0 in half of all cases.
    `None` if it excludes 0 already, if no method has several seeds, if the difference is 0, or with
    `more_tasks`."""
    more_tasks: bool
    """True if the number of tasks limits the interval, and not the number of seeds."""


def compare(first: ArrayLike, second: ArrayLike) -> MethodComparison:
    """Compare `second` with `first`; arguments and errors as in `paired_difference`."""
    difference = paired_difference(first, second)
    improvement = probability_of_improvement(first, second)
    several = [table for table in _pair(first, second) if len(table) > 1]
    # Without a second seed the deviation between seeds is unknown.
    if not several or not difference.value or difference.excludes(0.0):
        return MethodComparison(difference, improvement, None, more_tasks=False)
    deviation = math.hypot(*(float(table.mean(1).std(ddof=1)) for table in several))
    seeds = seeds_needed(deviation, abs(difference.value), methods=len(several))
    enough = seeds <= min(map(len, several))
    return MethodComparison(difference, improvement, None if enough else seeds, more_tasks=enough)


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """Compute the unbiased probability that at least one of k samples passes, from n samples of which c passed.

    The formula is 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374).

    Raises:
        ValueError: If `k` lies outside [1, samples], or `passed` outside [0, samples].
    """
    if not (1 <= k <= samples and 0 <= passed <= samples):
        raise ValueError(
            f"pass@k needs 1 <= k <= samples and 0 <= passed <= samples, got k={k}, samples={samples}, "
            f"passed={passed}"
        )
    # Factor by factor, as binomials of hundreds of samples overflow floats.
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
    """Estimate a statistic of tables (R, S, T) with the same tasks and separate seeds."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    value = float(statistic(*(table[None] for table in tables))[0])
    tasks, seeds = tables[0].shape[1], [len(table) for table in tables]
    if tasks == max(seeds) == 1:
        return Estimate(value, None, None, 1)
    of_tasks = _task_distances(tables, statistic, value, level, replicates, seed)
    of_seeds = _seed_distance(tables, statistic, level)
    below, above = (math.hypot(distance, of_seeds) for distance in of_tasks)
    # Seeds are scarcer than tasks, so they limit what the interval can claim.
    units = min((size for size in seeds if size > 1), default=tasks)
    return Estimate(value, value - below, value + above, units)


def _task_distances(
    tables: Sequence[Array],
    statistic: Callable[..., Array],
    value: float,
    level: float,
    replicates: int,
    seed: int,
) -> tuple[float, float]:
    """Compute the distances from the value to the percentiles of the bootstrap over tasks, below and above."""
    tasks = tables[0].shape[1]
    if tasks == 1:
        return 0.0, 0.0
    # A separate stream, so that intervals do not depend on earlier draws.
    rng, samples = stream(seed, "bootstrap"), []
    # In chunks, since all resamples of many seeds and tasks do not fit in memory.
    at_once = max(1, MAX_ELEMENTS // (sum(map(len, tables)) * tasks))
    for first in range(0, replicates, at_once):
        # All seeds and tables share the drawn tasks, so differences stay paired.
        columns = rng.integers(tasks, size=(min(at_once, replicates - first), tasks))
        # (S, R, T) becomes (R, S, T), as statistics want it.
        samples.append(statistic(*(table[:, columns].swapaxes(0, 1) for table in tables)))
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(samples), [tail, 1 - tail])
    normal = NormalDist().inv_cdf(1 - tail)
    # A single seed keeps the plain percentile interval, whose coverage is in the table above.
    widening = 1.0
    if any(len(table) > 1 for table in tables):
        widening = math.sqrt(tasks / (tasks - 1)) * student_quantile(level, tasks - 1) / normal
    # The value of a skewed statistic may lie outside of its own percentiles.
    return widening * max(0.0, value - float(low)), widening * max(0.0, float(high) - value)


def _seed_distance(tables: Sequence[Array], statistic: Callable[..., Array], level: float) -> float:
    """Compute the half-width of the interval over seeds; 0 if no table has several."""
    variances, freedoms = [], []
    for place, table in enumerate(tables):
        if len(table) == 1:
            continue
        # Leave one seed out: the jackknife works for any statistic, and equals Student for a mean.
        without = [
            float(statistic(*(t[None] for t in (*tables[:place], rest, *tables[place + 1 :])))[0])
            for rest in (np.delete(table, row, axis=0) for row in range(len(table)))
        ]
        # (n - 1) / n times the sum of squared deviations (Tukey 1958), which is (n - 1) times their variance.
        variances.append((len(table) - 1) ** 2 / len(table) * float(np.var(without, ddof=1)))
        freedoms.append(len(table) - 1)
    total = sum(variances)
    if not total:
        return 0.0
    shares = sum(v**2 / freedom for v, freedom in zip(variances, freedoms, strict=True))
    # Rounding must not take a degree away where the formula of Welch gives a whole number.
    return student_quantile(level, max(1, int(total**2 / shares + 1e-9))) * math.sqrt(total)


@functools.lru_cache(maxsize=1000)
def student_quantile(level: float, freedom: int) -> float:
    """Compute the two-sided quantile t of Student's distribution: P(|T| < t) = level.

    By bisection of the exact distribution (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).
    """
    freedom = min(freedom, MAX_FREEDOM)
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(freedom)
    # 60 halvings of an interval of pi / 2 leave less than the rounding of a float.
    for _ in range(60):
        middle = (low + high) / 2
        if _student_probability(middle, freedom) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan(low)


def _student_probability(angle: float, freedom: int) -> float:
    """Compute P(|t| < sqrt(freedom) tan(angle))."""
    square, odd = math.cos(angle) ** 2, freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(freedom // 2):
        total += term
        term *= square * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total
