"""Panel of the summary, which claims no more than the data supports, and the introduction above it.

Environments, rewards and algorithms describe themselves in the manifest: `describe_reward` has the fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from markupsafe import Markup

from llm_decpomdp.benchmarks.evaluation.experiments import (
    SEEDS_NEEDED_NOTE,
    Experiment,
    compare_experiments,
    component_gain,
    config_differences,
    evaluation_mean,
    evaluation_return,
    first_moment,
    format_estimate,
    format_interval,
    headings,
    interval_units,
    mean_gain,
    seeds_needed,
)
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, value_of_communication
from llm_decpomdp.benchmarks.report.charts import moving_window
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
from llm_decpomdp.benchmarks.runs.results import Results, Row, component_names, is_cumulative, pairs
from llm_decpomdp.utils.text import number

DOCS = (
    "Documentation: `docs/evaluation.md` explains this page, `docs/metrics.md` every metric, `docs/learners.md` "
    "the algorithms."
)

ENOUGH_TASKS = 6
"""Minimum number of tasks: with fewer, even a gain on every task has p > 0.05 (two-sided sign test)."""

LONGEST_VALUE = 60
"""Maximum characters of a value of a configuration in a table; longer ones are cut."""

ENOUGH_RUNS = 6
"""Minimum number of runs that need no remark on the assumption behind the interval."""


def introduction(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield descriptions of tasks, algorithms and maximum rewards, and pointers into the documentation."""
    environments = {
        (str(run.manifest.get("environment")), _description(run.manifest).get("environment")): None
        for experiment in experiments
        for run in experiment.runs
    }
    several = len({name for name, _ in environments}) > 1
    for name, text in environments:
        if text:
            yield prose(f"`{name}`: {text}" if several else text)
    algorithms = (text.get("algorithm") for text in _descriptions(experiments))
    yield from map(prose, filter(None, dict.fromkeys(algorithms)))
    names: dict[str, list[str]] = {}
    for experiment in experiments:
        if maximum := maximum_reward([experiment]):
            names.setdefault(maximum, []).append(experiment.name)
    if names:
        usual = max(names, key=lambda maximum: len(names[maximum]))
        groups = [f"{value} for {', '.join(names[value])}" for value in names if value != usual]
        exceptions = f" ({'; '.join(groups)})" if groups else ""
        text = f"Each turn has one reward for the whole team, of at most {usual}{exceptions}."
        if any(is_cumulative(run.manifest) for e in experiments for run in e.runs):
            text += " The rewards of an episode sum to its score: reward means this sum."
        yield prose(text)
    yield prose(DOCS, "small")


def maximum_reward(experiments: Sequence[Experiment]) -> str:
    """Return the maximum reward of a turn, such as "4.0"; empty if it is unknown or differs."""
    values = {d.get("reward", {}).get("maximum") for d in _descriptions(experiments)}
    (value,) = values if len(values) == 1 else (None,)
    return "" if value is None else str(round(float(value), 2))


def component_texts(experiments: Sequence[Experiment], names: Sequence[str]) -> str:
    """Return the descriptions of components as markup; empty if the environments have none."""
    texts: dict[str, dict[str, None]] = {name: {} for name in names}
    for experiment in experiments:
        for name, component in _declared_components(experiment).items():
            if name in texts:
                texts[name][component["text"]] = None
    meanings = {plain(name): " Or: ".join(of) for name, of in texts.items() if of}
    return definitions(meanings) if meanings else ""


def _declared_components(experiment: Experiment) -> dict[str, Mapping[str, Any]]:
    return {
        name: component
        for description in _descriptions([experiment])
        for name, component in description.get("reward", {}).get("components", {}).items()
        if component["text"]
    }


def _descriptions(experiments: Sequence[Experiment]) -> list[Mapping[str, Any]]:
    return [_description(run.manifest) for e in experiments for run in e.runs]


def _description(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    description: Mapping[str, Any] = manifest.get("description", {})  # older manifests have none
    return description


def _solved_counts(experiment: Experiment) -> list[tuple[int, int]]:
    """Return solved and all episodes of the first and last evaluation over all runs; empty if unknown."""
    counts = []
    for position in (0, -1):
        scores = [
            score.solved
            for run in experiment.runs
            for score in run.select_scores("eval", run.evaluations[position]["update"])
        ]
        if not scores or None in scores:
            return []
        counts.append((sum(map(bool, scores)), len(scores)))
    return counts


def _unit(experiment: Experiment) -> str:
    """Return what `solved` counts: tasks, or episodes if tasks were played several times."""
    (run, *more) = experiment.runs
    tasks = [s.task for s in run.select_scores("eval", run.evaluations[-1]["update"])]
    return "tasks" if not more and len(set(tasks)) == len(tasks) else "episodes"


def is_significant(gain: Estimate, runs: int) -> bool:
    """Check that the interval of a gain excludes 0, over enough tasks or several runs."""
    # With few tasks an interval is narrow by chance.
    return not (runs == 1 and gain.units < ENOUGH_TASKS) and gain.excludes(0.0)


def _headline(experiment: Experiment) -> str:
    gain, counts = mean_gain(experiment), _solved_counts(experiment)
    if not is_significant(gain, len(experiment.runs)):
        return "Training did not change the reward significantly."
    if gain.value < 0 or not counts:
        direction = "lower" if gain.value < 0 else "higher"
        return f"The reward is {direction} than {first_moment(experiment)}."
    forms, contents = _split_components(experiment)
    rest = component_gain(experiment, contents)
    only_form = bool(forms) and rest is not None
    if rest is not None and rest.value > 0 and is_significant(rest, len(experiment.runs)):
        only_form = False
    lead = "Only the form improved" if only_form else "The reward increased"
    # A gain without solved tasks must not read like success.
    if not counts[-1][0]:
        return f"{lead}; no task is solved."
    return f"{lead}; {_unit(experiment)} solved: {_solved_change(experiment, counts)}."


def _solved_change(experiment: Experiment, counts: Sequence[tuple[int, int]]) -> str:
    before, after = (f"{solved} of {episodes}" for solved, episodes in counts)
    return f"{before} {first_moment(experiment)}, {after} after training"


def _split_components(experiment: Experiment) -> tuple[list[str], list[str]]:
    """Return the components that are declared to be form, and all others."""
    declared = _declared_components(experiment)
    names = list(dict.fromkeys(n for run in experiment.runs for s in run.scores for n in s.points))
    forms = [name for name in names if name in declared and declared[name]["form"]]
    return forms, [name for name in names if name not in forms]


def _claims(experiment: Experiment, *notes: str) -> Iterator[str]:
    """Yield solved tasks, the part of the gain that is form, and the meaning of the intervals."""
    sentences, counts = [], _solved_counts(experiment)
    if counts:
        unit, episodes = _unit(experiment), counts[-1][1]
        start = first_moment(experiment).removesuffix(" training")
        sentences.append(
            f"Solved {unit}: {_solved_change(experiment, counts)}."
            if any(solved for solved, _ in counts)
            else f"None of the {episodes} {unit} is solved, {start} or after training."
        )
    forms, contents = _split_components(experiment)
    gain_of_forms, rest = (component_gain(experiment, names) for names in (forms, contents))
    if forms and gain_of_forms is not None and rest is not None and mean_gain(experiment).value:
        form = f"{number(gain_of_forms.value, sign=True)} of the change is form ({', '.join(map(plain, forms))})"
        others_text = (
            f"{format_estimate(rest, sign=True)} is the rest ({', '.join(map(plain, contents))})"
            if contents
            else "the reward has no other components"
        )
        sentences.append(f"{form}, which wrong answers can also have; {others_text}.")
    if sentences:
        yield tag("p", " ".join(sentences))
    if mean_gain(experiment).low is not None:
        yield tag("p", " ".join([_brackets([experiment]), *notes]), "small")


def _brackets(experiments: Sequence[Experiment]) -> str:
    return f"In brackets: 95 % intervals {interval_units(experiments)}."


def _cards(experiment: Experiment) -> str:
    rows, maximum = experiment.runs[0].evaluations, maximum_reward([experiment])

    def card(name: str, value: Estimate, *, gain: bool = False) -> tuple[str, str, str]:
        text = number(value.value, sign=gain) + (f" of {maximum}" if maximum and not gain else "")
        return name, text, format_interval(value, sign=gain)

    if len(rows) == 1:
        cards = [card("mean team reward", evaluation_mean(experiment, 0))]
    else:
        cards = [
            card(_moment(rows[i], experiment), evaluation_mean(experiment, i)) for i in (0, -1)
        ]
        cards.append(card("gain", mean_gain(experiment), gain=True))
    if counts := _solved_counts(experiment):
        shares = [f"{solved} of {episodes}" for solved, episodes in counts[: len(rows)]]
        cards.append((f"{_unit(experiment)} solved", " → ".join(shares), ""))
    return render("cards", cards)


def _moment(row: Row, experiment: Experiment) -> str:
    update = row["update"]
    if update == 0:
        return first_moment(experiment)
    return f"after {update} update{'s' * (update > 1)}"


def summary(experiments: Sequence[Experiment]) -> str:
    """Draw rewards and gains, as far as the runs have them."""
    if len(experiments) > 1:
        parts = _comparison(experiments)
    else:
        (experiment,) = experiments
        parts = (_all_seeds if len(experiment.runs) > 1 else _single_run)(experiment)
    return "\n".join([*parts, *_communication(experiments)])


def _communication(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield the value of communication, where the best scores with and without messages are known."""
    rows = []
    for experiment in experiments:
        known = _description(experiment.runs[0].manifest).get("numbers", {})
        count = min(len(run.evaluations) for run in experiment.runs)
        for position in (0, -1)[-count:] if count else ():
            score = evaluation_return(experiment, position)
            value = score and value_of_communication(score, known)
            if score and value:
                row = experiment.runs[0].evaluations[position]
                moment = _moment(row, experiment) if experiment.has_training else "evaluation"
                numbers = [number(known["silent"]), number(known["optimum"])]
                estimates = [format_estimate(score), format_estimate(value)]
                rows.append((experiment.name or "team", moment, *numbers, *estimates))
    if rows:
        head = (
            "team",
            "moment",
            "best without messages",
            "optimum",
            "score",
            "value of communication",
        )
        yield table("communication", head, rows)
        yield prose(
            "The value of communication is (score - best without messages) / (optimum - best without messages). "
            "It is 1 at the optimum, and at most 0 for a team that makes no use of messages. "
            f"{_brackets(experiments)}",
            "small",
        )


def _single_run(experiment: Experiment) -> Iterator[str]:
    (run,) = experiment.runs
    yield from _warm_start(run)
    if len(run.evaluations) > 1:
        first, last = run.evaluations[0], run.evaluations[-1]
        yield tag("p", _headline(experiment), "headline")
        yield _cards(experiment)
        yield tag("p", _verdict(experiment))
        yield from _claims(
            experiment,
            "The interval of a single seed covers the choice of tasks, not the variation between trainings.",
        )
        yield from _examples(run)
        yield _reward_table(first, last, "sum" if is_cumulative(run.manifest) else "mean")
        return
    if not run.evaluations:
        yield tag("p", "The run has no evaluation. All numbers below are of training tasks.")
    else:
        row = run.evaluations[0]
        mean = format_estimate(evaluation_mean(experiment, 0))
        text = f"mean team reward {mean} over {_episodes(row)}. {_brackets([experiment])}"
        if not experiment.has_training:
            yield _cards(experiment)
            # Of a run that goes on; the manifest of an evaluation has no updates.
            moment = "before" if "updates" in run.manifest else "without"
            yield tag("p", f"One evaluation, {moment} training: {text}")
            return
        yield tag("p", f"The run has one evaluation so far, {_moment(row, experiment)}: {text}")
    yield from _training_course(run.train)


def _warm_start(run: Results) -> Iterator[str]:
    if not run.lessons:
        return
    last = run.lessons[-1]
    source = "given completions"
    if "round" in last:
        source = f"the team's own passing samples, {last['round']} rounds"
    text = f"Warm start: {last['step']} steps of supervised training on {source}."
    # The means of the untrained team are over turns, and those of a cumulative reward over episodes.
    if run.untrained and run.evaluations and not is_cumulative(run.manifest):
        before, after = (
            number(rows[0]["reward_mean"]) for rows in (run.untrained, run.evaluations)
        )
        text += f" It changed the mean team reward from {before} to {after} ({_episodes(run.untrained[0])})."
    yield tag("p", f"{text} All gains below are relative to the team after the warm start.")


def _all_seeds(experiment: Experiment) -> Iterator[str]:
    if not _all_have(experiment, 2):
        yield tag("p", "Not every run has two evaluations, so the gain by training is not known.")
        yield _runs_table([experiment])
        return
    runs, gain = len(experiment.runs), mean_gain(experiment)
    rose = sum(mean_gain(Experiment("", (run,))).value > 0 for run in experiment.runs)
    yield tag("p", _headline(experiment), "headline")
    yield _cards(experiment)
    yield tag(
        "p",
        f"Over {runs} seeds, the mean team reward changed by {format_estimate(gain, sign=True)}, paired by task. "
        f"It increased with {rose} of {runs} seeds. {_significance(gain, runs)}",
    )
    yield from _claims(experiment)
    yield _runs_table([experiment])
    yield from _examples(experiment.runs[0])


def _comparison(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield a table of configurations, the best first, each compared with the first of the command line."""
    environments = list(dict.fromkeys(map(_environment, experiments)))
    ranked, order = list(experiments), "the best first"
    # Rewards of different environments have no common order.
    if len(environments) == 1:
        ranked.sort(
            key=lambda e: evaluation_mean(e, -1).value if _all_have(e, 1) else float("-inf"),
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
        + f" {_brackets(experiments)}",
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
    yield details_block("All runs", _runs_table(experiments))


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
    if _all_have(experiment, 1):
        cells["last evaluation"] = format_estimate(evaluation_mean(experiment, -1))
        if counts := _solved_counts(experiment):
            cells["solved"] = "{} of {}".format(*counts[-1])
        comparable = experiment is not first and _environment(experiment) == _environment(first)
        comparison = (
            compare_experiments(first, experiment) if comparable and _all_have(first, 1) else None
        )
        if comparison:
            cells[against] = format_estimate(comparison.difference, sign=True)
            cells["seeds needed"] = seeds_needed(comparison)
    if _all_have(experiment, 2):
        cells["before"] = format_estimate(evaluation_mean(experiment, 0))
        cells["gain"] = format_estimate(mean_gain(experiment), sign=True)
    return cells


def _environment(experiment: Experiment) -> str:
    return str(experiment.runs[0].manifest.get("environment", "unnamed"))


def _all_have(experiment: Experiment, evaluations: int) -> bool:
    return all(len(run.evaluations) >= evaluations for run in experiment.runs)


def _training_course(train: Sequence[Row]) -> Iterator[str]:
    """Yield the mean reward of the first and last updates, for runs that have no better measure."""
    if len(train) > 1:
        size = min(moving_window(len(train)), len(train) // 2)
        first, last = (
            number(fmean(row["reward_mean"] for row in rows))
            for rows in (train[:size], train[-size:])
        )
        period = f"{size} updates" if size > 1 else "update"
        yield tag(
            "p",
            f"On training tasks, the mean team reward was {first} over the first {period} and {last} over the "
            f"last {period}, of {len(train)}. Each update has other tasks, so a part of the change is chance.",
        )
    elif train:
        mean = number(train[0]["reward_mean"])
        yield tag("p", f"The run has one update so far, with a mean team reward of {mean}.")


def _episodes(row: Row) -> str:
    return "1 episode" if row["n"] == 1 else f"{row['n']} episodes"


def _verdict(experiment: Experiment) -> str:
    (run,) = experiment.runs
    gain, last = mean_gain(experiment), run.evaluations[-1]
    before, after = (format_estimate(evaluation_mean(experiment, i)) for i in (0, -1))
    verb = "rose" if gain.value > 0 else "fell"
    way = f"{verb} from {before} to" if gain.value else "stayed at"
    text = f"The mean team reward {way} {after} over {_episodes(last)} on {_held_out(run)}. "
    if gain.low is not None:
        text += f"The difference is {format_estimate(gain, sign=True)}, paired by task. "
    return text + _significance(gain, 1)


def _significance(gain: Estimate, runs: int) -> str:
    if gain.low is None:
        return "The episodes do not tell how much of the difference is chance."
    if runs == 1 and gain.units < ENOUGH_TASKS:
        return f"The difference may be chance: {gain.units} tasks are too few to tell."
    if not gain.excludes(0.0):
        return "The interval contains 0, so the difference may be chance."
    if 1 < runs < ENOUGH_RUNS:
        return (
            "The interval excludes 0, which is rare without a true difference if the means of runs are normally "
            f"distributed; {runs} runs are too few to check this assumption."
        )
    return "The interval excludes 0, which is rare without a true difference."


def _held_out(run: Results) -> str:
    tasks = {score.task for score in run.ends("eval")[0]}
    if shared := len(tasks & run.trained_tasks):
        return f"evaluation tasks, {shared} of {len(tasks)} of which were also trained on"
    return "held-out tasks, none of which was trained on" if tasks else "the evaluation tasks"


def _examples(run: Results) -> Iterator[str]:
    """Yield links to the tasks with the largest, the median and the smallest gain, a representative choice."""
    gains = pairs(run)
    if len(gains) > 2:
        examples = {"largest": gains[0], "median": gains[len(gains) // 2], "smallest": gains[-1]}
        links = [
            Markup("{}: {} ({} → {})").format(
                name,
                link(pair.task, task=pair.task, phase="eval", compare=1),
                number(pair.before),
                number(pair.after),
            )
            for name, pair in examples.items()
        ]
        text = Markup("Transcripts before and after training, by gain: {}.")
        yield tag("p", text.format(Markup("; ").join(links)), "small")


def _reward_table(first: Row, last: Row, over_turns: str) -> str:
    turns = [key for key in first if key.startswith("turn_") and key.endswith("/reward_mean")]
    names = {"reward_mean": "team reward"}
    if len(turns) > 1:
        names = {"reward_mean": f"team reward, {over_turns} over turns"}
        for key in turns:
            if key in last:
                names[key] = f"… of {plain(key.partition('/')[0])}, if reached"
    names |= {f"reward/{name}": plain(name) for name in component_names((first, last))[0]}
    if "solved" in first:
        names["solved"] = "share of turns with the maximum reward"
    rows = [
        (name, number(first[key]), number(last[key]), number(last[key] - first[key], sign=True))
        for key, name in names.items()
    ]
    head = ("mean over the evaluation tasks", "before", "after", "change")
    return details_block("Reward by component", table("parts", head, rows))


def _runs_table(experiments: Sequence[Experiment]) -> str:
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
