"""Panel of the training diagnostics: numbers of the learner over the updates, and warnings about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from markupsafe import Markup

from llm_decpomdp.algorithms.training.metrics import TrainingWarning, find_warnings
from llm_decpomdp.benchmarks.evaluation.experiments import Experiment, Series, read_settings
from llm_decpomdp.benchmarks.report.charts import COLORS, Line, colors, inline, line_charts
from llm_decpomdp.benchmarks.report.page import box, definitions, plain, render, tag
from llm_decpomdp.benchmarks.runs.results import Results, Row
from llm_decpomdp.envs.feedback.code_mode import parse_slice

Values = dict[int, float]

ALL = ""
"""Name of the line of a number that is of the whole team."""


@dataclass(frozen=True)
class Diagnostic:
    """A number of the learner."""

    title: str
    key: str
    """Regular expression of its keys in `metrics.jsonl`; a group of it names the policy."""
    healthy: str


DIAGNOSTICS = (
    Diagnostic(
        "entropy (nats/token)",
        "entropy/(.+)",
        "It falls slowly; near 0 the samples of a group are equal, and learning ends.",
    ),
    Diagnostic(
        "KL to the reference",
        "kl/(.+)",
        "It grows slowly and levels off; a steady rise means that the policy leaves its reference.",
    ),
    Diagnostic(
        "gradient norm",
        "grad_norm/(.+)",
        "It keeps its order of magnitude; single peaks are clipped, and a lasting rise comes before divergence.",
    ),
    Diagnostic(
        "clip fraction",
        "clip_fraction/(.+)",
        "It is below 0.2; more means that steps are too large, or too many for one batch.",
    ),
    Diagnostic(
        "sampler mismatch",
        "mismatch/(.+)",
        "It stays near 0; large values mean that samples do not come from the policy that learns.",
    ),
    Diagnostic(
        "completion length",
        "characters/(.+)",
        "Characters of a completion: they change with the task and the reward; growth alone is padding.",
    ),
    Diagnostic(
        "truncated share",
        "truncated/(.+)",
        "It is near 0; a completion that ends at the token limit often lacks its answer.",
    ),
    Diagnostic(
        "groups without signal",
        "silent",
        "It is well below 1; at 1 all rewards of each group are equal, and an update teaches nothing.",
    ),
    Diagnostic(
        "explained variance",
        "turn_[0-9]+/explained_variance",
        "It is above 0 and rises toward 1; below 0 the critic misleads. Mean over the turns.",
    ),
)


def diagnostics(experiments: Sequence[Experiment]) -> str:
    """Draw warnings, and each number that the runs have; empty without updates."""
    if not any(experiment.rows("train") for experiment in experiments):
        return ""
    parts = [tag("p", f"{text}.", "banner") for text in warnings_by_kind(experiments).values()]
    tables = [[_diagnostic_rows(run) for run in experiment.runs] for experiment in experiments]
    panels, policies = {}, dict.fromkeys(_policies(tables)) if len(experiments) == 1 else {}
    for diagnostic in DIAGNOSTICS:
        if lines := list(_lines(diagnostic, experiments, tables, list(policies))):
            panels[diagnostic.title] = lines
    if panels:
        chart = line_charts("diagnostics", "Training diagnostics over the updates", panels)
        if len(experiments) == 1:
            note = "One line for each policy. Gray: the whole team."
            names = {plain(name): index % COLORS for index, name in enumerate(policies)}
        else:
            note = "Means over the policies of each configuration."
            numbers = zip(experiments, colors(experiments), strict=True)
            names = {e.name: number for e, (number, _) in numbers}
        legend = render("legend", [(name, number + 1) for name, number in names.items()])
        caption = tag("figcaption", Markup("{}<br>{}").format(legend, note))
        healthy = {d.title: d.healthy for d in DIAGNOSTICS if d.title in panels}
        parts += [box("figure", [inline(chart), caption]), definitions(healthy)]
    return "\n".join(parts)


def warnings_by_kind(experiments: Sequence[Experiment]) -> dict[str, str]:
    """Return the first warning of each kind, with the number of its kind, by the kind or by its only name."""
    kinds: dict[str, list[tuple[str, TrainingWarning]]] = {}
    for name, warning in warnings_of(experiments):
        kinds.setdefault(warning.name.partition(" of ")[0], []).append((name, warning))
    texts = {}
    for kind, found in kinds.items():
        name, warning = found[0]
        times = f" ({len(found)} such warnings; this is the first)" if len(found) > 1 else ""
        texts[kind if times else warning.name] = f"{name}{times}: {warning.text}"
    return texts


def warnings_of(experiments: Sequence[Experiment]) -> list[tuple[str, TrainingWarning]]:
    """Return the warnings at the end of each run, with names that tell the run where there are several."""
    several = sum(len(experiment.runs) for experiment in experiments) > 1
    return [
        (f"{_run_name(run)}, {warning.name}" if several else warning.name, warning)
        for experiment in experiments
        for run in experiment.runs
        for warning in find_warnings(run.train, evaluation_rows(run))
    ]


def _run_name(run: Results) -> str:
    """Return the name of a run: of the training of a suite, the folder of its arm and seed."""
    return run.path.parent.name if run.path.name == "training" else run.path.name


def evaluation_rows(run: Results) -> list[Row]:
    """Return the rows of the evaluations, where known with the shares of visible and hidden tests passed."""
    count, rows = shown_tests(run.config_text), [dict(row) for row in run.evaluations]
    for row in rows if count else ():
        outcomes = [s.outcomes for s in run.select_scores("eval", row["update"]) if s.outcomes]
        # Episodes whose tests are all shown have nothing to compare with.
        parts = [(tests[count:], tests[:count]) for tests in outcomes if len(tests) > abs(count)]
        if parts:
            # A negative number shows the last tests.
            after, before = zip(*parts, strict=True)
            shown, hidden = (before, after) if count > 0 else (after, before)
            row["visible_tests"], row["hidden_tests"] = map(_share, (shown, hidden))
    return rows


SLICED = ("humaneval", "coophumaneval", "mbpp", "classeval")
"""Families whose feedback shows the tests of `sandbox_slice`, counted from the first."""

SHOWING = ("level_feedback",)


def shown_tests(config_text: str) -> int:
    """Return how many tests the prompts of a run show: n first, -n last; 0 where none or all are shown."""
    keys = read_settings(config_text) if config_text else {}
    family = str(keys.get("env.id")).rpartition("-v")[0]
    if family not in SLICED or keys.get("external.mode") not in SHOWING:
        return 0
    return parse_slice(keys.get("external.sandbox_slice")) if keys.get("env.num_turns") != 1 else 0


def _share(tests: Sequence[Sequence[bool]]) -> float:
    return fmean(passed for of in tests for passed in of)


def _diagnostic_rows(run: Results) -> dict[str, Values]:
    """Return the numbers of a run's updates that a diagnostic draws, by their keys."""
    values: dict[str, Values] = {}
    keys = dict.fromkeys(key for row in run.train for key in row)
    # The other keys of a thousand runs would need hundreds of megabytes.
    drawn = [key for key in keys if any(re.fullmatch(d.key, key) for d in DIAGNOSTICS)]
    for row in run.train:
        for key in drawn:
            if key in row:
                values.setdefault(key, {})[row["update"]] = row[key]
        if row.get("groups"):
            silent = row["groups_without_signal"] / row["groups"]
            values.setdefault("silent", {})[row["update"]] = silent
    lengths: dict[tuple[str, int], list[float]] = {}
    for score in run.scores:
        if score.phase == "train":
            for agent, length in score.characters.items():
                lengths.setdefault((f"characters/{agent}", score.update), []).append(length)
    for (key, update), of in lengths.items():
        values.setdefault(key, {})[update] = fmean(of)
    return values


def _match(diagnostic: Diagnostic, values: Mapping[str, Values]) -> Iterator[tuple[str, Values]]:
    for key, of in values.items():
        if match := re.fullmatch(diagnostic.key, key):
            yield (match[1] if match.re.groups else ALL), of


def _policies(tables: Sequence[Sequence[Mapping[str, Values]]]) -> Iterator[str]:
    for diagnostic in DIAGNOSTICS:
        for values in (values for runs in tables for values in runs):
            yield from (name for name, of in _match(diagnostic, values) if name != ALL)


def _lines(
    diagnostic: Diagnostic,
    experiments: Sequence[Experiment],
    tables: Sequence[Sequence[Mapping[str, Values]]],
    policies: Sequence[str],
) -> Iterator[Line]:
    """Yield a line for each policy of a single experiment, or one for each of several experiments."""
    if len(experiments) == 1:
        runs = [list(_match(diagnostic, values)) for values in tables[0]]
        for name in dict.fromkeys(name for lines in runs for name, _ in lines):
            series = _series([[of for n, of in lines if n == name] for lines in runs])
            if series.updates:
                yield Line(series, None if name == ALL else policies.index(name))
        return
    for of_runs, (number, _) in zip(tables, colors(experiments), strict=True):
        series = _series([[of for _, of in _match(diagnostic, values)] for values in of_runs])
        if series.updates:
            yield Line(series, number)


def _series(runs: Sequence[Sequence[Values]]) -> Series:
    """Return the mean of each run's lines, over the updates that all of them have; empty if a run has none."""
    updates = [set.intersection(*map(set, lines)) if lines else set() for lines in runs]
    shared = sorted(set.intersection(*updates))
    values = [[fmean(of[update] for of in lines) for update in shared] for lines in runs]
    return Series(shared, np.array(values, dtype=float))
