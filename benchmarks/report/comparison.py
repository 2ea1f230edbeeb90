"""Tables that compare several configurations and runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llm_decpomdp.benchmarks.evaluation.experiments import (
    SEEDS_NEEDED_NOTE,
    Experiment,
    compare_experiments,
    config_differences,
    evaluation_mean,
    format_estimate,
    headings,
    interval_units,
    mean_gain,
    seeds_needed,
    solved_counts,
)
from llm_decpomdp.benchmarks.report.descriptions import maximum_reward
from llm_decpomdp.benchmarks.report.page import Heading, details_block, table, tag

LONGEST_VALUE = 60
"""Maximum characters of a value of a configuration in a table; longer ones are cut."""


def comparison(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield a table of configurations, the best first, each compared with the first of the command line."""
    environments = list(dict.fromkeys(map(_environment, experiments)))
    ranked, order = list(experiments), "the best first"
    # Rewards of different environments have no common order.
    if len(environments) == 1:
        ranked.sort(
            key=lambda e: evaluation_mean(e, -1).value if e.has_evaluations(1) else float("-inf"),
            reverse=True,
        )
    else:
        order = (
            f"not ranked, as rewards of different environments ({', '.join(environments)}) do not compare; in the "
            "order of the command line"
        )
    maximum = maximum_reward(experiments)
    yield tag(
        "p",
        f"{len(experiments)} configurations, {order}."
        + f" The maximum reward is {maximum}." * bool(maximum)
        + f" {brackets(experiments)}",
    )
    first = experiments[0]
    against = Heading(("against", *headings(experiments)[first.name]), f"against {first.name}")
    rows = [_cells(experiment, first, against) for experiment in ranked]
    head: list[str | Heading] = ["configuration", "seeds", "before", "last evaluation", "gain"]
    optional = (against, "seeds needed", "solved")
    head += [name for name in optional if any(row.get(name, "—") != "—" for row in rows)]
    yield table("summary", head, [[row.get(name, "—") for name in head] for row in rows])
    if "seeds needed" in head:
        yield tag("p", SEEDS_NEEDED_NOTE, "small")
    yield from _differences(experiments)
    yield details_block("All runs", runs_table(experiments))


def _differences(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield a table of the keys in which configurations differ; the longer one of both lists goes down."""
    names = [e.name for e in experiments if e.runs[0].config_text]
    values = {
        key: list(map(_short_value, of)) for key, of in config_differences(experiments).items()
    }
    if not values:
        return
    yield tag("h3", "Differences of the configurations")
    if len(names) > len(values):
        rows = [(name, *cells) for name, *cells in zip(names, *values.values(), strict=True)]
        yield table("differences", ("configuration", *values), rows)
    else:
        yield table("differences", ("key", *names), [(key, *of) for key, of in values.items()])


def _short_value(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _cells(experiment: Experiment, first: Experiment, against: Heading) -> dict[str | Heading, str]:
    """Return the known numbers of a configuration by the heads of their columns."""
    cells: dict[str | Heading, str] = {
        "configuration": experiment.name,
        "seeds": str(len(experiment.runs)),
    }
    if experiment.has_evaluations(1):
        cells["last evaluation"] = format_estimate(evaluation_mean(experiment, -1))
        if counts := solved_counts(experiment):
            cells["solved"] = "{} of {}".format(*counts[-1])
        comparable = experiment is not first and _environment(experiment) == _environment(first)
        comparable = comparable and first.has_evaluations(1)
        if comparable and (compared := compare_experiments(first, experiment)):
            cells[against] = format_estimate(compared.difference, sign=True)
            cells["seeds needed"] = seeds_needed(compared)
    if experiment.has_evaluations(2):
        cells["before"] = format_estimate(evaluation_mean(experiment, 0))
        cells["gain"] = format_estimate(mean_gain(experiment), sign=True)
    return cells


def _environment(experiment: Experiment) -> str:
    return str(experiment.runs[0].manifest.get("environment", "unnamed"))


def runs_table(experiments: Sequence[Experiment]) -> str:
    """Return a table of runs, with their first and last evaluations."""
    rows = []
    for run in (run for experiment in experiments for run in experiment.runs):
        single = Experiment("", (run,))
        cells = [run.path.name, str(run.manifest.get("seed", "—")), str(len(run.train))]
        before = after = gain = "—"
        if run.evaluations:
            after = format_estimate(evaluation_mean(single, -1))
        if len(run.evaluations) > 1:
            before = format_estimate(evaluation_mean(single, 0))
            gain = format_estimate(mean_gain(single), sign=True)
        rows.append((*cells, before, after, gain))
    return table("runs", ("run", "seed", "updates", "before", "after", "gain"), rows)


def brackets(experiments: Sequence[Experiment]) -> str:
    """Say what the brackets behind estimates are."""
    return f"In brackets: 95 % intervals {interval_units(experiments)}."
