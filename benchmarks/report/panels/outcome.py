"""The panel of the result: in words and numbers, with its uncertainty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from markupsafe import Markup

from llm_decpomdp.benchmarks.evaluation.experiments import (
    NEEDED,
    Experiment,
    compare_experiments,
    evaluation_mean,
    format_estimate,
    headings,
    interval_units,
    mean_gain,
    seeds_needed,
)
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, MethodComparison
from llm_decpomdp.benchmarks.report.elements.charts import window
from llm_decpomdp.benchmarks.report.elements.page import (
    Heading,
    details_block,
    link,
    plain,
    table,
    tag,
)
from llm_decpomdp.benchmarks.report.panels.headline import (
    ENOUGH_TASKS,
    facts,
    headline,
    moment,
    parts,
    solved_count,
    solved_sentence,
)
from llm_decpomdp.benchmarks.report.panels.overview import maximum_reward
from llm_decpomdp.benchmarks.runs.results import Results, Row, component_names, pairs
from llm_decpomdp.utils.text import number

ENOUGH_RUNS = 6
"""Least number of runs that need no remark on the assumption behind the interval."""

OF_ONE_SEED = (
    "This is one run with one seed: the interval covers the choice of tasks, not how another training run would "
    "turn out."
)


def outcome(experiments: Sequence[Experiment]) -> str:
    """Draw rewards and gains, as far as the runs know them."""
    if len(experiments) > 1:
        return "\n".join(_comparison(experiments))
    experiment = experiments[0]
    if len(experiment.runs) > 1:
        return "\n".join(_over_seeds(experiment))
    return "\n".join(_one_run(experiment))


def _intervals(experiments: Sequence[Experiment]) -> str:
    return f"In brackets: 95 % intervals {interval_units(experiments)}."


def _one_run(experiment: Experiment) -> Iterator[str]:
    (run,) = experiment.runs
    yield from _warm_start(run)
    if len(run.evaluations) > 1:
        yield tag("p", headline(experiment), "headline")
        yield facts(experiment)
        yield tag("p", _verdict(experiment))
        yield from _claims(experiment, [OF_ONE_SEED])
        yield from _examples(run)
        yield _before_and_after(run.evaluations[0], run.evaluations[-1])
        return
    if run.evaluations:
        row = run.evaluations[0]
        mean = f"mean team reward {format_estimate(evaluation_mean(experiment, 0))} over {_episodes(row)}. "
        if not experiment.has_training:
            yield facts(experiment)
            yield tag("p", f"One evaluation, without training: {mean}{_intervals([experiment])}")
            return
        when = moment(row, experiment)
        yield tag(
            "p", f"The run has one evaluation so far, {when}: {mean}{_intervals([experiment])}"
        )
    else:
        yield tag("p", "The run has no evaluation: all numbers below are of the training tasks.")
    yield from _training(run.train)


def _warm_start(run: Results) -> Iterator[str]:
    """Yield what a warm start has changed, apart from the updates that came after it."""
    if not run.lessons:
        return
    last = run.lessons[-1]
    source = f"its own passes of {last['round']} rounds" if "round" in last else "given completions"
    steps = f"The team first imitated {source}, in {last['step']} steps"
    if run.untrained and run.evaluations:
        before, after = run.untrained[0]["reward_mean"], run.evaluations[0]["reward_mean"]
        steps += (
            f", which took its mean team reward from {number(before)} to {number(after)} "
            f"({_episodes(run.untrained[0])})"
        )
    yield tag("p", f"{steps}. What training changed is told below from that point on.")


def _over_seeds(experiment: Experiment) -> Iterator[str]:
    """Yield the result of all seeds of one configuration."""
    if not all(len(run.evaluations) > 1 for run in experiment.runs):
        yield tag("p", "Not every run has two evaluations, so what training changed is not known.")
        yield _runs_table([experiment])
        return
    yield tag("p", headline(experiment), "headline")
    yield facts(experiment)
    runs, gain = len(experiment.runs), mean_gain(experiment)
    rose = sum(mean_gain(Experiment("", (run,))).value > 0 for run in experiment.runs)
    yield tag(
        "p",
        f"Over {runs} seeds the mean team reward changed by {format_estimate(gain, sign=True)}, measured task by "
        f"task; it rose with {rose} of them. {_judgement(gain, runs)}",
    )
    yield from _claims(experiment, [])
    yield _runs_table([experiment])
    yield from _examples(experiment.runs[0])


def _comparison(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield a table of several configurations, the best first, each against the one that was named first.

    Those of several environments keep their order, and are compared where the environment is the same.
    """
    places = list(dict.fromkeys(map(_environment, experiments)))
    ranked, order = list(experiments), "the best first"
    # Rewards of different environments have no common order.
    if len(places) == 1:
        ranked.sort(key=_last, reverse=True)
    else:
        order = (
            f"not ranked: {' and '.join(places)} are different environments, whose highest "
            "rewards may differ, so the order is that of the command line"
        )
    most = (
        f" Rewards are out of {maximum_reward(experiments)}." if maximum_reward(experiments) else ""
    )
    yield tag("p", f"{len(experiments)} configurations, {order}.{most} {_intervals(experiments)}")
    first = experiments[0]
    against = Heading(("against", *headings(experiments)[first.name]), f"against {first.name}")
    rows = [_cells(experiment, first, against) for experiment in ranked]
    head: list[str | Heading] = ["configuration", "seeds", "before", "last evaluation", "gain"]
    optional = (against, "seeds needed", "solved")
    head += [name for name in optional if any(row.get(name, "—") != "—" for row in rows)]
    yield table("summary", head, [[row.get(name, "—") for name in head] for row in rows])
    if "seeds needed" in head:
        yield tag("p", NEEDED, "small")
    yield details_block("Every run", _runs_table(experiments))


def _last(experiment: Experiment) -> float:
    """Return the mean reward of the last evaluation, less than any other where a run has none."""
    return evaluation_mean(experiment, -1).value if _all_have(experiment, 1) else float("-inf")


def _cells(experiment: Experiment, first: Experiment, against: Heading) -> dict[str | Heading, str]:
    """Return the numbers of a configuration that there are, by the heads of their columns."""
    cells: dict[str | Heading, str] = {
        "configuration": experiment.name,
        "seeds": str(len(experiment.runs)),
    }
    if _all_have(experiment, 1):
        cells["last evaluation"] = format_estimate(evaluation_mean(experiment, -1))
        cells["solved"] = str(solved_count(experiment, -1) or "—")
        if comparison := _compare_last(first, experiment):
            cells[against] = format_estimate(comparison.difference, sign=True)
            cells["seeds needed"] = seeds_needed(comparison)
    if _all_have(experiment, 2):
        cells["before"] = format_estimate(evaluation_mean(experiment, 0))
        cells["gain"] = format_estimate(mean_gain(experiment), sign=True)
    return cells


def _compare_last(first: Experiment, experiment: Experiment) -> MethodComparison | None:
    """Compare the last evaluations of two configurations of one environment, where both have one."""
    same = experiment is not first and _environment(experiment) == _environment(first)
    return compare_experiments(first, experiment) if same and _all_have(first, 1) else None


def _environment(experiment: Experiment) -> str:
    return str(experiment.runs[0].manifest.get("environment", "an unnamed one"))


def _all_have(experiment: Experiment, evaluations: int) -> bool:
    return all(len(run.evaluations) >= evaluations for run in experiment.runs)


def _training(train: tuple[Row, ...]) -> Iterator[str]:
    """Yield the course of the updates' mean reward, for runs that have no better measure."""
    if len(train) > 1:
        size = min(window(len(train)), len(train) // 2)
        first, last = (
            number(fmean(row["reward_mean"] for row in rows))
            for rows in (train[:size], train[-size:])
        )
        period = f"{size} updates" if size > 1 else "update"
        yield tag(
            "p",
            f"On training tasks, the mean team reward was {first} over the first {period} and {last} over the "
            f"last, of {len(train)}. Each update has tasks of its own, so a part of this is chance.",
        )
    elif train:
        mean = number(train[0]["reward_mean"])
        yield tag("p", f"One update was made so far, with a mean team reward of {mean}.")


def _episodes(row: Row) -> str:
    return "1 episode" if row["n"] == 1 else f"{row['n']} episodes"


def _verdict(experiment: Experiment) -> str:
    """Return the result of one run in plain words, with its uncertainty."""
    (run,) = experiment.runs
    gain, last = mean_gain(experiment), run.evaluations[-1]
    before, after = (format_estimate(evaluation_mean(experiment, i)) for i in (0, -1))
    verb = "rose" if gain.value > 0 else "fell"
    way = f"{verb} from {before} to" if gain.value else "stayed at"
    text = f"The mean team reward {way} {after} over {_episodes(last)} on {_held_out(run)}. "
    if gain.low is None:
        return text + _judgement(gain, 1)
    size = f"{format_estimate(gain, sign=True)}, measured task by task"
    return f"{text}The difference is {size}. {_judgement(gain, 1)}"


def _claims(experiment: Experiment, notes: Sequence[str]) -> Iterator[str]:
    """Yield solved tasks, the part of the gain that is form, and the meaning of the intervals."""
    if claims := [text for text in (solved_sentence(experiment), parts(experiment)) if text]:
        yield tag("p", " ".join(claims))
    if mean_gain(experiment).low is not None:
        yield tag("p", " ".join([_intervals([experiment]), *notes]), "small")


def _judgement(gain: Estimate, runs: int) -> str:
    """Return a sentence on whether a gain may be chance."""
    if gain.low is None:
        return "How much of the difference is chance, these episodes cannot tell."
    if runs == 1 and gain.units < ENOUGH_TASKS:
        return f"It may be chance: {gain.units} tasks are too few to tell."
    if not gain.excludes(0.0):
        return "The interval contains 0, so the difference may be chance."
    if 1 < runs < ENOUGH_RUNS:
        return (
            f"The interval excludes 0, which is rare without a true difference if the means of runs are normally "
            f"distributed; {runs} runs are too few to see whether they are."
        )
    return "The interval excludes 0, which is rare without a true difference."


def _held_out(run: Results) -> str:
    before, _ = run.ends("eval")
    tasks = {score.task for score in before}
    shared = len(tasks & run.trained_tasks)
    if shared:
        return f"evaluation tasks, {shared} of {len(tasks)} of which were also trained on"
    if not tasks:
        return "the evaluation tasks"
    return "held-out tasks, none of which was trained on"


def _examples(run: Results) -> Iterator[str]:
    """Yield links to the tasks with the largest, the median and the smallest gain, a representative choice."""
    pairs_ = pairs(run)
    if len(pairs_) > 2:
        positions = {"Largest gain": 0, "median": len(pairs_) // 2, "smallest": -1}
        links = [
            Markup("{}: {} ({} → {})").format(
                name,
                link(pair.task, task=pair.task, phase="eval", compare=1),
                number(pair.before),
                number(pair.after),
            )
            for name, i in positions.items()
            for pair in [pairs_[i]]
        ]
        text = Markup("Read before and after side by side. {}.").format(Markup("; ").join(links))
        yield tag("p", text, "small")


def _before_and_after(first: Row, last: Row) -> str:
    turns = [key for key in first if key.startswith("turn_") and key.endswith("/reward_mean")]
    names = {"reward_mean": "team reward, mean over turns" if len(turns) > 1 else "team reward"}
    if len(turns) > 1:
        names |= {
            key: f"… on {plain(key.partition('/')[0])}, where reached"
            for key in turns
            if key in last
        }
    names |= {f"reward/{name}": plain(name) for name in component_names((first, last))[0]}
    if "solved" in first:
        names["solved"] = "share of turns with full marks"
    rows = [
        (name, number(first[key]), number(last[key]), number(last[key] - first[key], sign=True))
        for key, name in names.items()
    ]
    head = ("mean over the evaluation tasks", "before", "after", "change")
    return details_block("The parts of the reward in numbers", table("parts", head, rows))


def _runs_table(experiments: Sequence[Experiment]) -> str:
    rows = []
    for experiment in experiments:
        for run in experiment.runs:
            alone = Experiment(experiment.name, (run,))
            seed = str(run.manifest.get("seed", "—"))
            cells = [run.path.name, seed, str(len(run.train)), "—", "—", "—"]
            if len(run.evaluations) > 1:
                ends = (
                    format_estimate(evaluation_mean(alone, 0)),
                    format_estimate(evaluation_mean(alone, -1)),
                )
                cells[3:] = [*ends, format_estimate(mean_gain(alone), sign=True)]
            elif run.evaluations:
                cells[4] = format_estimate(evaluation_mean(alone, -1))
            rows.append(tuple(cells))
    return table("runs", ("run", "seed", "updates", "before", "after", "gain"), rows)
