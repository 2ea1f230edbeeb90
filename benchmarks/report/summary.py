"""Panel of the summary, which claims no more than the data supports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from markupsafe import Markup

from llm_decpomdp.benchmarks.evaluation.experiments import (
    Experiment,
    component_gain,
    evaluation_mean,
    evaluation_return,
    first_moment,
    format_estimate,
    format_interval,
    mean_gain,
    solved_counts,
)
from llm_decpomdp.benchmarks.evaluation.statistics import Estimate, value_of_communication
from llm_decpomdp.benchmarks.report.charts import moving_window
from llm_decpomdp.benchmarks.report.comparison import brackets, comparison, runs_table
from llm_decpomdp.benchmarks.report.descriptions import (
    declared_components,
    maximum_reward,
    read_description,
)
from llm_decpomdp.benchmarks.report.page import (
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

ENOUGH_TASKS = 6
"""Minimum number of tasks: with fewer, even a gain on every task has p > 0.05 (two-sided sign test)."""

ENOUGH_RUNS = 6
"""Minimum number of runs that need no remark on the assumption behind the interval."""


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
    gain, counts = mean_gain(experiment), solved_counts(experiment)
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
    declared = declared_components(experiment)
    names = list(dict.fromkeys(n for run in experiment.runs for s in run.scores for n in s.points))
    forms = [name for name in names if name in declared and declared[name]["form"]]
    return forms, [name for name in names if name not in forms]


def _claims(experiment: Experiment, *notes: str) -> Iterator[str]:
    """Yield solved tasks, the part of the gain that is form, and the meaning of the intervals."""
    sentences, counts = [], solved_counts(experiment)
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
        yield tag("p", " ".join([brackets([experiment]), *notes]), "small")


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
    if counts := solved_counts(experiment):
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
        parts = comparison(experiments)
    else:
        (experiment,) = experiments
        parts = (_all_seeds if len(experiment.runs) > 1 else _single_run)(experiment)
    return "\n".join([*parts, *_communication(experiments)])


def _communication(experiments: Sequence[Experiment]) -> Iterator[str]:
    """Yield the value of communication, where the best scores with and without messages are known."""
    rows = []
    for experiment in experiments:
        known = read_description(experiment.runs[0].manifest).get("numbers", {})
        count = min(len(run.evaluations) for run in experiment.runs)
        # A single evaluation is the last one.
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
            f"{brackets(experiments)}",
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
        text = f"mean team reward {mean} over {_episodes(row)}. {brackets([experiment])}"
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
    if not experiment.has_evaluations(2):
        yield tag("p", "Not every run has two evaluations, so the gain by training is not known.")
        yield runs_table([experiment])
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
    yield runs_table([experiment])
    yield from _examples(experiment.runs[0])


def _training_course(train: Sequence[Row]) -> Iterator[str]:
    """Yield the mean reward of the first and last updates, for runs that have no better measure."""
    if len(train) > 1:
        size = min(moving_window(len(train)), len(train) // 2)  # so that the two do not overlap
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
