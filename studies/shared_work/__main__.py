"""Print the tables and the verdicts of the suite, from the folder of `llm-decpomdp bench`.

python -m studies.shared_work runs/shared_work
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from llm_decpomdp.benchmarks.evaluation.experiments import format_estimate
from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult, read_evaluation
from llm_decpomdp.benchmarks.evaluation.statistics import (
    Estimate,
    bootstrap,
    paired_difference,
    share,
)
from llm_decpomdp.benchmarks.suites.job import is_done, read_status
from llm_decpomdp.benchmarks.suites.leaderboard import job_folders, read_suite
from llm_decpomdp.envs.coding.division import POINTS

Scores = npt.NDArray[np.float64]
"""(seeds, tasks), each the mean over the samples of a task."""

SHARED, TESTS, TOKENS = "shared programs", "tests passed", "sequential tokens"
MEASURES = {SHARED: "last/reward/shared", TESTS: "tests_passed", TOKENS: "sequential_tokens"}

SINGLE = "single_grpo"
"""The trained single agent of the table."""

GOAL, TOKEN_GOAL = 0.3, 0.7

SHARED_GOALS = (
    ("S1", "magrpo"),
    ("S1", "order_magrpo"),
    ("S9", "known_call_magrpo"),
    ("S13", "own_magrpo"),
    ("S13", "own_passes"),
    ("S13", "own_wide_demonstrations"),
    ("S20", "own_passes"),
    ("S20", "own_passes_magrpo"),
    ("S22", "own_more_passes"),
    ("S23", "own_wide_passes"),
)
"""Hypotheses that an arm reaches the goal for shared programs."""

TESTS_GOALS = (
    ("S4", "magrpo", SINGLE),
    ("not declared", "order_magrpo", SINGLE),
    ("S9", "known_call_magrpo", SINGLE),
    ("S15", "own_magrpo", SINGLE),
    ("S18", "own_passes", "single_passes"),
    ("S18", "own_passes_magrpo", "single_passes"),
)
"""Hypotheses that an arm reaches the goals for tests passed and sequential tokens, and their arm of one agent."""

COMPARED = (
    ("S2", SHARED, "magrpo", "demonstrations", 1),
    ("S3", SHARED, "few_magrpo", "few_demonstrations", 1),
    ("S5", SHARED, "order_magrpo", "magrpo", 1),
    ("S6", SHARED, "levels", "magrpo", -1),
    ("S7", TESTS, "common", "magrpo", 1),
    ("S8", SHARED, "own_parts", "magrpo", 1),
    ("S10", SHARED, "known_call_demonstrations", "demonstrations", 1),
    ("S11", SHARED, "known_call_magrpo", "known_call_demonstrations", 1),
    ("S12", SHARED, "own_demonstrations", "pair", 1),
    ("S14", SHARED, "own_magrpo", "own_demonstrations", 1),
    ("S16", SHARED, "own_few_demonstrations", "own_demonstrations", -1),
    ("S17", SHARED, "own_passes", "own_demonstrations", 1),
    ("S19", SHARED, "own_wide_demonstrations", "own_demonstrations", 1),
    ("S21", SHARED, "own_passes_magrpo", "own_passes", 1),
    ("S22", SHARED, "own_more_passes", "own_passes", 1),
    ("S23", SHARED, "own_wide_passes", "own_more_passes", 1),
)
"""Hypotheses with a paired difference: measure, two arms, and the predicted sign of the first minus the second."""

Arms = Mapping[str, Mapping[str, Scores]]
"""The measures of each arm of a data set."""


def read_arms(folder: Path) -> dict[str, dict[str, dict[str, Scores]]]:
    """Return the measures of all measured arms, by data set and arm."""
    found: dict[str, dict[str, dict[str, Scores]]] = {}
    for arm in read_suite(folder)["cells"]:
        done = [path for _, path in job_folders(folder, arm) if is_done(read_status(path), arm)]
        data = Path(arm["config"]).stem
        if done:
            name = arm["name"].removesuffix(f"-{data}")
            found.setdefault(data, {})[name] = _scores([read_evaluation(path) for path in done])
    return found


def _scores(evaluations: list[EvaluationResult]) -> dict[str, Scores]:
    scores = {}
    for name, measure in MEASURES.items():
        rows = [[of.values[measure][task] for task in of.tasks] for of in evaluations]
        samples = np.asarray(rows, dtype=np.float64)
        full = samples >= POINTS["shared"] - 1e-9
        scores[name] = np.mean(full if name == SHARED else samples, -1)
    return scores


def ratio(team: Scores, single: Scores) -> Estimate:
    """Estimate the mean of a team divided by that of a single agent, over the same tasks."""
    logs = paired_difference(single, team, lambda values: np.log(values.mean(-1)))
    low, high = (None if end is None else math.exp(end) for end in (logs.low, logs.high))
    return Estimate(math.exp(logs.value), low, high, logs.units)


def table(arms: Arms) -> Iterator[str]:
    """Yield the lines of the table of a data set."""
    yield f"| arm | seeds | {SHARED} | {TESTS} | {TOKENS} | of the trained single agent's |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name, scores in arms.items():
        tokens = format_estimate(bootstrap(scores[TOKENS]))
        cells = [name, str(len(scores[TESTS]))]
        cells += [format_estimate(share(scores[measure])) for measure in (SHARED, TESTS)]
        known = SINGLE in arms and name != SINGLE
        part = format_estimate(ratio(scores[TOKENS], arms[SINGLE][TOKENS])) if known else "—"
        yield f"| {' | '.join([*cells, tokens, part])} |"


def verdicts(arms: Arms) -> Iterator[str]:
    """Yield a line for each hypothesis whose arms are measured."""
    for hypothesis, name in SHARED_GOALS:
        if name in arms:
            found = share(arms[name][SHARED])
            reached = "reached" if found.value >= GOAL else "missed"
            yield f"{hypothesis}, {name}: {SHARED} {format_estimate(found)}, goal {GOAL} {reached}"
    for hypothesis, name, single in TESTS_GOALS:
        if name in arms and single in arms:
            tests = (share(arms[key][TESTS]) for key in (name, single))
            own, bound = next(tests).value, next(tests).low
            part = ratio(arms[name][TOKENS], arms[single][TOKENS])
            good = bound is not None and own >= bound and part.value <= TOKEN_GOAL
            yield (
                f"{hypothesis}, {name}: {TESTS} {own:.2f}, lower bound of {single} {bound or 0:.2f}; {TOKENS} "
                f"{format_estimate(part)} of its, goal {TOKEN_GOAL}: {'reached' if good else 'missed'}"
            )
    for hypothesis, measure, first, second, sign in COMPARED:
        if first in arms and second in arms:
            found = paired_difference(arms[second][measure], arms[first][measure])
            said = "undecided"
            if found.excludes(0.0):
                said = "confirmed" if found.value * sign > 0 else "refuted"
            text = format_estimate(found, sign=True)
            yield f"{hypothesis}, {first} less {second}: {measure} {text}, {said}"


def main(folder: Path) -> None:
    """Print the tables and verdicts of a folder."""
    for data, arms in read_arms(folder).items():
        print(f"\n**{data}**\n", *table(arms), "", *verdicts(arms), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
