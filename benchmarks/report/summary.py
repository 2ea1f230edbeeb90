"""Panel of the summary: claims that the data supports, with their uncertainty, and the head of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from markupsafe import Markup

from llm_decpomdp.benchmarks.evaluation.experiments import (
    NEEDED,
    Experiment,
    compare_experiments,
    component_gain,
    evaluation_mean,
    format_estimate,
    format_interval,
    headings,
    interval_units,
    mean_gain,
    seeds_needed,
)
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, MethodComparison
from llm_decpomdp.benchmarks.report.charts import window
from llm_decpomdp.benchmarks.report.page import (
    Heading,
    definitions,
    details_block,
    link,
    plain,
    prose,
    render,
    table,
    tag,
)
from llm_decpomdp.benchmarks.runs.results import Results, Row, component_names, pairs
from llm_decpomdp.utils.text import number

DOCS = (
    "In the documentation of llm_decpomdp: how to read this page in `docs/evaluation.md`, every measure in "
    "`docs/metrics.md`, the algorithms in `docs/learners.md`."
)


def about(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield descriptions of tasks, algorithms and highest rewards, and pointers into the documentation."""
    places = {
        (str(r.manifest.get("environment")), _description(r.manifest).get("environment")): None
        for r in _runs(experiments)
    }
    several_places = len({name for name, _ in places}) > 1
    for name, text in places:
        if text:
            yield prose(f"`{name}`: {text}" if several_places else text)
    for text in dict.fromkeys(
        description.get("algorithm") for description in _descriptions(experiments)
    ):
        if text:
            yield prose(text)
    if most := _maxima(experiments):
        yield prose(f"Every turn is rewarded, the whole team alike, with {most}.")
    yield prose(DOCS, "small")


def _maxima(experiments: Sequence[Experiment]) -> str:
    """Return the highest rewards, as in "4.0 at most, 2.1 for single_agent"; empty where they are unknown."""
    names: dict[str, dict[str, None]] = {}
    for experiment in experiments:
        if most := maximum_reward([experiment]):
            names.setdefault(most, {})[experiment.name] = None
    if not names:
        return ""
    usual = max(names, key=lambda most: len(names[most]))
    exceptions = [f", {most} for {', '.join(of)}" for most, of in names.items() if most != usual]
    return f"{usual} at most{''.join(exceptions)}"


def maximum_reward(experiments: Sequence[Experiment]) -> str:
    """Return the most that a turn can earn, such as "4.0"; empty where the runs do not say it, or differ."""
    most = {_reward(description).get("maximum") for description in _descriptions(experiments)}
    (value,) = most if len(most) == 1 else (None,)
    return "" if value is None else str(round(float(value), 2))


def declared_components(experiment: Experiment) -> dict[str, Mapping[str, Any]]:
    """Return descriptions of the reward's components by name, without those that have none."""
    return {
        name: component
        for description in _descriptions([experiment])
        for name, component in _reward(description).get("components", {}).items()
        if component["text"]
    }


def glossary(experiments: Sequence[Experiment], names: Sequence[str]) -> str:
    """Return the descriptions of components as markup; empty where the environments have none."""
    texts: dict[str, dict[str, None]] = {name: {} for name in names}
    for experiment in experiments:
        for name, component in declared_components(experiment).items():
            if name in texts:
                texts[name][component["text"]] = None
    meanings = {plain(name): " Or: ".join(of) for name, of in texts.items() if of}
    return definitions(meanings) if meanings else ""


def _runs(experiments: Sequence[Experiment]) -> list[Any]:
    return [run for experiment in experiments for run in experiment.runs]


def _descriptions(experiments: Sequence[Experiment]) -> list[Mapping[str, Any]]:
    return [_description(run.manifest) for run in _runs(experiments)]


def _description(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    description: Mapping[str, Any] = manifest.get("description", {})  # older manifests have none
    return description


def _reward(description: Mapping[str, Any]) -> Mapping[str, Any]:
    reward: Mapping[str, Any] = description.get("reward", {})
    return reward


ENOUGH_TASKS = 6
"""Least number of tasks: with fewer, even a gain on every task has p > 0.05 (two-sided sign test)."""


@dataclass(frozen=True)
class Count:
    """Number of episodes of an evaluation that were solved in some turn."""

    solved: int
    episodes: int

    def __str__(self) -> str:
        return f"{self.solved} of {self.episodes}"


def solved_count(experiment: Experiment, position: int) -> Count | None:
    """Return the count of the first (0) or last (-1) evaluation over all runs; `None` where it is unknown."""
    scores = [
        score.solved
        for run in experiment.runs
        for score in run.select_scores("eval", run.evaluations[position]["update"])
    ]
    if not scores or None in scores:
        return None
    return Count(sum(bool(share) for share in scores), len(scores))


def units(experiment: Experiment) -> str:
    """Return the unit of `solved` in words: tasks, unless some were played several times."""
    (run, *more) = experiment.runs
    tasks = [s.task for s in run.select_scores("eval", run.evaluations[-1]["update"])]
    return "tasks" if not more and len(set(tasks)) == len(tasks) else "episodes"


def headline(experiment: Experiment) -> str:
    """Return the result of training in one line that claims no more than was measured."""
    gain, counts = (
        mean_gain(experiment),
        [solved_count(experiment, position) for position in (0, -1)],
    )
    if not significant(gain, len(experiment.runs)):
        return "What training changed cannot be told from chance."
    if gain.value < 0:
        return f"The team earns less than {beginning(experiment)}."
    before, after = counts
    if before is None or after is None:
        return f"The team earns more than {beginning(experiment)}."
    lead = "Training taught form" if is_form_only(experiment) else "The team earns more"
    # A gain without solved tasks must not read like success.
    if not after.solved:
        return f"{lead}; no task is solved."
    return f"{lead}; {units(experiment)} solved: {_change(experiment, before, after)}."


def beginning(experiment: Experiment) -> str:
    """Return the point of the first evaluation in words: what training changed is told from there on."""
    return "after imitation" if any(run.lessons for run in experiment.runs) else "before training"


def _change(experiment: Experiment, before: Count, after: Count) -> str:
    start = beginning(experiment)
    return f"{before} {start}, {after} after{' training' * start.startswith('after')}"


def significant(gain: Estimate, runs: int) -> bool:
    """Check that the interval of a gain leaves out 0, over enough tasks or several runs."""
    # With few tasks an interval is narrow by chance.
    if gain.low is None or (runs == 1 and gain.units < ENOUGH_TASKS):
        return False
    return gain.excludes(0.0)


def is_form_only(experiment: Experiment) -> bool:
    """Check whether a gain is significant only in components of form, which wrong answers can earn too."""
    forms, rest_names = _form_components(experiment)
    rest = component_gain(experiment, rest_names)
    if not forms or rest is None:
        return False
    return not (rest.value > 0 and significant(rest, len(experiment.runs)))


def parts(experiment: Experiment) -> str:
    """Return the parts of a gain that are form and more than form, in a sentence; empty if undeclared."""
    forms, rest_names = _form_components(experiment)
    of_forms, rest = component_gain(experiment, forms), component_gain(experiment, rest_names)
    if not forms or of_forms is None or rest is None:
        return ""
    names = ", ".join(map(plain, forms))
    text = f"Of the change, {number(of_forms.value, sign=True)} is form, which wrong answers earn too ({names})"
    if not rest_names:
        return f"{text}: this reward looks at nothing else."
    return f"{text}, and {format_estimate(rest, sign=True)} is the rest ({', '.join(map(plain, rest_names))})."


def solved_sentence(experiment: Experiment) -> str:
    """Return the numbers of solved tasks before and after, in a sentence; empty if unknown."""
    before, after = (solved_count(experiment, position) for position in (0, -1))
    if before is None or after is None:
        return ""
    name = units(experiment)
    if not before.solved and not after.solved:
        start = beginning(experiment).removesuffix(" training")
        return f"None of the {after.episodes} {name} was solved, {start} or after training."
    return f"Solved {name}: {_change(experiment, before, after)}."


def _form_components(experiment: Experiment) -> tuple[Sequence[str], Sequence[str]]:
    """Return the components of the runs that are declared to be form, and all others."""
    declarations = declared_components(experiment)
    names = list(dict.fromkeys(n for run in experiment.runs for s in run.scores for n in s.points))
    forms = [name for name in names if name in declarations and declarations[name]["form"]]
    return forms, [name for name in names if name not in forms]


def facts(experiment: Experiment) -> str:
    """Draw the cards of the first and the last evaluation and of the gain, or of a single evaluation."""
    return render("cards", list(_cards(experiment)))


def _cards(experiment: Experiment) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and interval of each card."""
    rows = experiment.runs[0].evaluations
    most = maximum_reward([experiment])
    if len(rows) == 1:
        yield _card("mean team reward", evaluation_mean(experiment, 0), most)
    else:
        for position in (0, -1):
            when = moment(rows[position], experiment)
            yield _card(when, evaluation_mean(experiment, position), most)
        yield _card("gain", mean_gain(experiment), "", sign=True)
    counts = [
        solved_count(experiment, position) for position in ((0, -1) if len(rows) > 1 else (0,))
    ]
    if None not in counts:
        yield f"{units(experiment)} solved", " → ".join(map(str, counts)), ""


def moment(row: Row, experiment: Experiment) -> str:
    """Return the point of training at which an evaluation was made, in words."""
    update = row["update"]
    if update == 0:
        return beginning(experiment)
    return f"after {update} update{'s' if update > 1 else ''}"


def _card(name: str, value: Estimate, most: str, *, sign: bool = False) -> tuple[str, str, str]:
    text = number(value.value, sign=sign) + (f" of {most}" if most else "")
    return name, text, format_interval(value, sign=sign)


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
    yield from _training_course(run.train)


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


def _training_course(train: tuple[Row, ...]) -> Iterator[str]:
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
