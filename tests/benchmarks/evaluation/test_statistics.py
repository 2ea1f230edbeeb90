from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from llm_decpomdp.benchmarks.evaluation import statistics
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    bootstrap,
    compare,
    interquartile_mean,
    paired_difference,
    pass_at_k,
    probability_of_improvement,
    seeds_needed,
    share,
    student_quantile,
)


@pytest.mark.parametrize(("samples", "passed"), [(1, 0), (1, 1), (5, 2), (6, 0), (6, 5), (6, 6)])
def test_pass_at_k_counts_all_choices(samples: int, passed: int) -> None:
    flags = [True] * passed + [False] * (samples - passed)
    for k in range(1, samples + 1):
        choices = list(itertools.combinations(flags, k))
        expected = sum(map(any, choices)) / len(choices)
        assert pass_at_k(samples, passed, k) == pytest.approx(expected)


def test_pass_at_k_of_many_samples_is_that_of_the_binomials() -> None:
    expected = 1 - math.comb(1900, 100) / math.comb(2000, 100)
    assert pass_at_k(2000, 100, 100) == pytest.approx(expected)


@pytest.mark.parametrize("arguments", [(4, 1, 5), (4, 1, 0), (4, 5, 1), (4, -1, 1)])
def test_pass_at_k_refuses_what_cannot_be(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="pass@k needs"):
        pass_at_k(*arguments)


def half_width(found: Estimate) -> float:
    assert found.low is not None and found.high is not None
    return (found.high - found.low) / 2


def test_interquartile_mean_leaves_out_a_quarter_at_each_end() -> None:
    assert interquartile_mean(np.array([[100.0, 1, 2, 3, 4, -50, 5, 6]])) == pytest.approx([3.5])
    assert interquartile_mean(np.array([[9.0, 1, 2]])) == pytest.approx([4.0])  # floor(3 / 4) is 0
    assert interquartile_mean(np.array([[5.0]])) == pytest.approx([5.0])


def test_an_estimate_is_the_statistic_and_two_percentiles() -> None:
    scores = np.arange(20.0).reshape(4, 5)
    assert bootstrap(scores).value == pytest.approx(9.5)
    assert bootstrap(scores, interquartile_mean).value == pytest.approx(9.5)
    narrow, wide = bootstrap(scores, level=0.5), bootstrap(scores, level=0.99)
    assert wide.low < narrow.low < 9.5 < narrow.high < wide.high  # type: ignore[operator]


def test_the_interval_of_tasks_has_the_width_of_their_standard_error() -> None:
    scores = np.random.default_rng(0).normal(size=400)
    found = bootstrap(scores, replicates=5000)
    assert half_width(found) == pytest.approx(1.96 * scores.std() / 20, rel=0.05)
    assert found.units == 400


def test_tasks_are_drawn_once_for_all_seeds() -> None:
    """Equal seeds tell as little of other tasks as one of them does."""
    tasks = np.random.default_rng(1).normal(size=30)
    one = bootstrap(tasks, replicates=5000)
    many = bootstrap(np.tile(tasks, (10, 1)), replicates=5000)
    assert half_width(many) == pytest.approx(half_width(one), rel=0.1)
    assert (one.units, many.units) == (30, 10)


def test_equal_tasks_tell_as_little_of_other_seeds_as_one_of_them_does() -> None:
    seeds = np.random.default_rng(2).normal(size=(8, 1))
    one, many = bootstrap(seeds, replicates=5000), bootstrap(np.tile(seeds, 50), replicates=5000)
    assert half_width(many) == pytest.approx(half_width(one), rel=0.1)


def test_blocks_change_only_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(3).normal(size=(3, 40))
    whole = bootstrap(scores)
    monkeypatch.setattr(statistics, "MAX_ELEMENTS", 120 * 7)
    assert bootstrap(scores).low == pytest.approx(whole.low, abs=0.03)
    monkeypatch.setattr(statistics, "MAX_ELEMENTS", 1)
    assert bootstrap(scores, replicates=20).low is not None


def test_episodes_counted_as_units_would_miss_the_truth_often() -> None:
    """Tasks are the units, for many samples of few tasks look certain, and are not."""
    rng, hits, as_episodes, trials = np.random.default_rng(5), 0, 0, 200
    for trial in range(trials):
        scores = rng.normal(size=(20, 1)) + 0.3 * rng.normal(size=(20, 30))
        hits += not bootstrap(scores.mean(1), replicates=300, seed=trial).excludes(0.0)
        as_episodes += not bootstrap(scores.ravel(), replicates=300, seed=trial).excludes(0.0)
    assert hits / trials > 0.88
    assert as_episodes / trials < 0.5


def test_nothing_to_resample_gives_no_interval_and_no_chance_one_without_width() -> None:
    assert bootstrap([3.0]) == Estimate(3.0, None, None, 1)
    assert bootstrap([2.0, 2.0, 2.0]) == Estimate(2.0, 2.0, 2.0, 3)
    assert bootstrap([[1.0], [2.0]]).units == 2
    assert paired_difference([1.0], [3.0]) == Estimate(2.0, None, None, 1)


def test_a_share_of_none_or_all_leaves_room_for_what_was_not_seen() -> None:
    nothing, everything = share([0.0] * 16), share(np.ones((3, 16)))
    assert nothing.low == 0.0 and nothing.high == pytest.approx(1 - 0.05 ** (1 / 16))
    assert nothing.high == pytest.approx(3 / 16, abs=0.02)
    assert everything.low == pytest.approx(1 - nothing.high) and everything.high == 1.0
    assert share([0.0, 1.0, 1.0]) == bootstrap([0.0, 1.0, 1.0])
    assert share([0.5, 0.5]) == Estimate(0.5, 0.5, 0.5, 2)


def test_a_paired_difference_takes_out_how_hard_tasks_are() -> None:
    rng = np.random.default_rng(6)
    hard = 10 * rng.normal(size=50)
    before, after = hard + 0.1 * rng.normal(size=50), hard + 0.5 + 0.1 * rng.normal(size=50)
    found = paired_difference(before, after)
    assert found.value == pytest.approx(0.5, abs=0.1)
    assert half_width(found) < 0.1 and found.excludes(0.0)
    assert half_width(bootstrap(before)) > 2


def test_a_paired_difference_of_the_middle_is_that_of_the_middles() -> None:
    rng = np.random.default_rng(7)
    one, two = rng.normal(size=(3, 12)), rng.normal(size=(5, 12))
    expected = interquartile_mean(two.reshape(1, -1)) - interquartile_mean(one.reshape(1, -1))
    assert paired_difference(one, two, interquartile_mean).value == pytest.approx(expected[0])


def test_the_probability_of_improvement_counts_pairs_of_seeds_and_halves_of_ties() -> None:
    one = [[1.0, 5.0], [3.0, 5.0]]
    two = [[2.0, 5.0], [4.0, 6.0], [0.0, 4.0]]
    wins = [(1 + 1 + 0 + 0 + 1 + 0) / 6, (0.5 + 1 + 0 + 0.5 + 1 + 0) / 6]
    found = probability_of_improvement(one, two)
    assert found.value == pytest.approx(sum(wins) / 2)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0  # type: ignore[operator]
    assert found.units == 2
    mirrored = probability_of_improvement(two, one)
    assert mirrored.value == pytest.approx(1 - found.value)


def test_equal_methods_improve_with_probability_one_half() -> None:
    scores = np.zeros((2, 6))
    assert probability_of_improvement(scores, scores) == Estimate(0.5, 0.5, 0.5, 2)


def test_a_method_that_wins_every_task_or_none_may_lose_or_win_others() -> None:
    none, every = np.zeros((1, 8)), np.ones((3, 8))
    hidden = 1 - 0.05 ** (1 / 8)
    won, lost = (probability_of_improvement(*pair) for pair in ((none, every), (every, none)))
    assert (won.value, won.low, won.high) == (1.0, pytest.approx(1 - hidden), 1.0)
    assert (lost.value, lost.low, lost.high) == (0.0, 0.0, pytest.approx(hidden))


@pytest.mark.parametrize(
    ("level", "freedom", "expected"),
    [
        (0.95, 1, 12.7062),
        (0.95, 2, 4.3027),
        (0.95, 3, 3.1824),
        (0.95, 20, 2.0860),
        (0.99, 7, 3.4995),
    ],
)  # tables of Student's distribution
def test_student_quantile(level: float, freedom: int, expected: float) -> None:
    assert student_quantile(level, freedom) == pytest.approx(expected, abs=1e-4)


def test_the_interval_of_seeds_with_equal_tasks_is_student_s() -> None:
    means = np.array([1.0, 2.0, 4.0, 4.5, 6.0])
    found = bootstrap(np.tile(means[:, None], 12))
    assert half_width(found) == pytest.approx(2.7764 * means.std(ddof=1) / math.sqrt(5), rel=1e-4)
    assert bootstrap(means[:, None]) == found  # one task


def test_the_difference_of_two_methods_has_the_interval_of_welch() -> None:
    first, second = np.array([[1.0], [2.0], [4.0]]), np.array([[5.0], [5.5], [6.5], [9.0]])
    a, b = first.var(ddof=1) / 3, second.var(ddof=1) / 4
    freedom = (a + b) ** 2 / (a**2 / 2 + b**2 / 3)
    assert 4 < freedom < 5  # rounded down
    found = paired_difference(first, second)
    assert half_width(found) == pytest.approx(2.7764 * math.sqrt(a + b), rel=1e-4)


DEVIATIONS = ((1.0, 0.2), (0.3, 0.3), (0.0, 1.0))
QUICK = ((2, *DEVIATIONS[0]), (3, *DEVIATIONS[1]), (10, *DEVIATIONS[2]))


@pytest.mark.parametrize(
    ("seeds", "of_seeds", "of_tasks"),
    [
        pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow)
        for case in ((seeds, *pair) for seeds in (2, 3, 5, 10) for pair in DEVIATIONS)
    ],
)
def test_coverage_of_null_cases(seeds: int, of_seeds: float, of_tasks: float) -> None:
    """Both the gain of one method and the difference of two; the standard error of 1,000 draws is 0.007."""
    rng, gains, differences, trials = np.random.default_rng(seeds), 0, 0, 1000
    for trial in range(trials):
        tasks = of_tasks * rng.normal(size=(1, 20))
        first, second = (
            tasks + of_seeds * rng.normal(size=(seeds, 1)) + 0.3 * rng.normal(size=(seeds, 20))
            for _ in range(2)
        )
        gains += bootstrap(first, replicates=200, seed=trial).excludes(0.0)
        differences += paired_difference(first, second).excludes(0.0) if trial % 5 == 0 else 0
    assert gains / trials <= 0.06 + 2 * 0.007
    assert differences / (trials / 5) <= 0.06 + 2 * 0.017


def test_a_share_stays_a_share() -> None:
    found = share([[0.9, 1.0], [0.1, 0.2]])
    assert (found.low, found.high) == (0.0, 1.0)


def test_seeds_needed_give_the_width_that_was_wanted() -> None:
    """Student's interval of n seeds has at most the wanted width, and that of n - 1 seeds a larger one."""
    assert seeds_needed(1.0, 0.5) == 18
    assert 2.1098 / math.sqrt(18) <= 0.5 < 2.1199 / math.sqrt(17)  # 17 and 16 degrees of freedom
    assert seeds_needed(math.sqrt(2), 1.0, methods=2) == 9
    assert 2.1199 * math.sqrt(2 / 9) <= 1.0 < 2.1448 * math.sqrt(2 / 8)  # 16 and 14
    assert seeds_needed(0.0, 0.5) == 2
    assert seeds_needed(1.0, 0.5, level=0.99) > 18
    with pytest.raises(ValueError, match="half_width must be above 0"):
        seeds_needed(1.0, 0.0)


def test_a_comparison_says_how_many_seeds_it_would_take() -> None:
    rng = np.random.default_rng(8)
    first, second = rng.normal(size=(3, 10)), rng.normal(size=(3, 10)) + 0.1
    unclear = compare(first, second)
    assert not unclear.difference.excludes(0.0) and not unclear.more_tasks
    assert unclear.seeds_needed is not None and unclear.seeds_needed > 3
    clear = compare(first, second + 10)
    assert clear.difference.excludes(0.0)
    assert clear.seeds_needed is None
    assert clear.improvement.value == 1.0
    assert compare(first, first).seeds_needed is None  # no difference at all
    assert compare(first[0], second[0]).seeds_needed is None  # one seed each
    assert compare(first[0], second).difference.units == 3


def test_a_comparison_asks_for_tasks_where_seeds_agree() -> None:
    first = np.zeros((4, 6))
    second = np.tile([[5.0, -4.0, 3.0, -2.0, 0.5, 1.0]], (4, 1))
    found = compare(first, second)
    assert not found.difference.excludes(0.0)
    assert (found.seeds_needed, found.more_tasks) == (None, True)
    assert not compare(first, second + 10).more_tasks
    assert not compare(first[0], second[0]).more_tasks  # one seed each


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap([]), "shape"),
        (lambda: bootstrap([1.0, math.nan]), "finite"),
        (lambda: bootstrap(np.zeros((2, 2, 2))), r"\(2, 2, 2\)"),
        (lambda: bootstrap([1.0, 2.0], level=95), "between 0 and 1, got 95"),
        (lambda: paired_difference([1.0, 2.0], [1.0]), "2 and 1"),
        (lambda: compare([[1.0, 2.0]], [[1.0]]), "same tasks"),
    ],
)
def test_what_cannot_be_estimated_is_an_error(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
