"""The result of a run in words and numbers, with its uncertainty."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from statistics import fmean

from llm_decpomdp.benchmarks.charts import plain, window
from llm_decpomdp.benchmarks.page import box, folded, number, table, tag
from llm_decpomdp.benchmarks.results import (
    ENOUGH_EPISODES,
    Results,
    Row,
    change,
    component_names,
    task_name,
)


def outcome(results: Results) -> Iterator[str]:
    """What training changed, as far as the run knows."""
    evaluations = results.evaluations
    if len(evaluations) > 1:
        yield _facts(results)
        yield tag("p", _verdict(results))
        yield _before_and_after(evaluations[0], evaluations[-1])
        return
    if evaluations:
        row = evaluations[0]
        when = "before training" if row["update"] == 0 else f"after update {row['update']}"
        text = f"The run has one evaluation so far, {when}: mean team reward {_mean(row)} over {_episodes(row)}. "
        yield tag("p", text + "What training changed on these tasks is not known yet.")
    else:
        yield tag("p", "The run has no evaluation: all numbers below are of the training tasks.")
    yield from _training(results.train)


def _training(train: tuple[Row, ...]) -> Iterator[str]:
    """How the mean reward of the updates went, for runs that have no better measure."""
    if len(train) > 1:
        size = min(window(len(train)), len(train) // 2)
        first, last = (
            number(fmean(row["reward_mean"] for row in rows))
            for rows in (train[:size], train[-size:])
        )
        which = f"{size} updates" if size > 1 else "update"
        yield tag(
            "p",
            f"On training tasks, the mean team reward was {first} over the first {which} and {last} over the "
            f"last, of {len(train)}. Each update has tasks of its own, so a part of this is chance.",
        )
    elif train:
        mean = number(train[0]["reward_mean"])
        yield tag("p", f"One update was made so far, with a mean team reward of {mean}.")


def _facts(results: Results) -> str:
    found = change(results)
    error = found.standard_error
    spread = "" if error is None else f"\u00a0±\u00a0{number(error)}"
    first, last = results.evaluations[0], results.evaluations[-1]
    facts = [
        (f"{moment(first)}", _mean(first)),
        (f"{moment(last)}", _mean(last)),
        ("change", number(found.difference, sign=True) + spread),
    ]
    return box("div", [_fact(name, *value.split("\u00a0", 1)) for name, value in facts], "facts")


def _fact(name: str, value: str, spread: str = "") -> str:
    return f"<div>{tag('span', name)}<b>{escape(value)} {tag('small', spread)}</b></div>"


def moment(row: Row) -> str:
    """When an evaluation took place."""
    update = row["update"]
    if update == 0:
        return "before training"
    return f"after {update} update{'s' if update > 1 else ''}"


def _mean(row: Row) -> str:
    error = row["reward_standard_error"]
    return number(row["reward_mean"]) + ("" if error is None else f"\u00a0±\u00a0{number(error)}")


def _episodes(row: Row) -> str:
    return "1 episode" if row["n"] == 1 else f"{row['n']} episodes"


def _verdict(results: Results) -> str:
    """The result in plain words, with its uncertainty."""
    found, first, last = change(results), results.evaluations[0], results.evaluations[-1]
    verb = "rose" if found.difference > 0 else "fell"
    way = f"{verb} from {_mean(first)} to" if found.difference else "stayed at"
    text = (
        f"The mean team reward {way} {_mean(last)} over {_episodes(last)} on {_held_out(results)} "
        "(± one standard error). "
    )
    if found.standard_error is None:
        return text + "One episode says nothing about how much of the difference is chance."
    kind = "measured task by task" if found.paired else "of two independent samples"
    size = (
        f"{number(found.difference, sign=True)}\u00a0±\u00a0{number(found.standard_error)}, {kind}"
    )
    if found.clear:
        text += f"The difference ({size}) is larger than its uncertainty: more than two standard errors. "
    elif found.episodes < ENOUGH_EPISODES:
        text += f"The difference ({size}) may be chance: {found.episodes} episodes are too few to tell. "
    else:
        text += (
            f"The difference ({size}) is not larger than its uncertainty of two standard errors, "
            "so it may be chance. "
        )
    return text + (
        "This is one run with one seed: the error covers the choice of tasks and the sampling, not how "
        "another training run would turn out."
    )


def _held_out(results: Results) -> str:
    before, _ = results.ends("eval")
    tasks = {task_name(row) for row in before}
    seen = len(tasks & results.trained_tasks)
    if seen:
        return f"evaluation tasks, {seen} of {len(tasks)} of which were also trained on"
    if not tasks:
        return "the evaluation tasks"
    return "held-out tasks, none of which was trained on"


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
    return folded("The parts of the reward in numbers", table(head, rows))
