"""Warnings about the course of a training, as pure functions of the rows of `metrics.jsonl`.

Each compares the newest updates with the first ones. The thresholds are rules of thumb: a warning is a reason to
look, not a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

PATIENCE = 5
"""Updates whose mean is compared, and updates without signal in a row that are worth a warning."""

MOSTLY = 0.5
"""Share of completions at the token limit from which on that is likely why."""

COLLAPSED = 0.1
"""Entropy over that of the first updates, at or below which a policy has hardly any variety left."""

FAR = 0.2
"""Divergence from the reference in nats/token that is far, if it still grows."""

LONGER = 1.5
"""Tokens of a group over those of the first updates that are a growing length."""

DEVIATIONS = 2.0
"""Standard errors by which the gain in training must exceed the held-out gain."""

EXPLOITED = 0.25
"""Difference of the shares of visible and of hidden tests passed that hints at answers made for the former."""

SOLVED = 0.95
"""Share of solved samples from which on equal answers are no fault."""

Row = Mapping[str, Any]
"""A row of `metrics.jsonl`."""


@dataclass(frozen=True)
class TrainingWarning:
    """A doubt about a training."""

    name: str
    """What it is, such as `growing KL`, with the agent if it is of one."""
    text: str
    """What was measured, and what to do."""


def find_warnings(updates: Sequence[Row], evaluations: Sequence[Row]) -> list[TrainingWarning]:
    """Find what is doubtful at the end of the given rows.

    Args:
        updates: Rows of the kind `train`, in order. The first and the last `PATIENCE` are enough.
        evaluations: Rows of the kind `eval`, in order. The first and the last are enough.
    """
    found = [*no_signal(updates), *exploited_tests(evaluations)]
    if len(updates) >= 2 * PATIENCE:
        first, last = updates[:PATIENCE], updates[-PATIENCE:]
        for check in COMPARISONS:
            found += check(first, last)
        found += drift(first, last, evaluations)
    return found


def no_signal(updates: Sequence[Row]) -> Iterator[TrainingWarning]:
    """Warn of the last updates if no group of them had a signal."""
    last = updates[-PATIENCE:]
    if len(last) == PATIENCE and all(map(lacks_signal, last)):
        text = f"{PATIENCE} updates in a row taught nothing: {reason(last)}"
        yield TrainingWarning("no group with signal", text)


def lacks_signal(row: Row) -> bool:
    """Check whether no group of an update had a signal: all advantages are zero."""
    return "groups" in row and bool(row["groups_without_signal"] == row["groups"])


def cut_off(rows: Sequence[Row]) -> float:
    """Compute the share of completions at the token limit: the mean over agents and updates."""
    shares = [v for row in rows for key, v in row.items() if key.startswith("truncated/")]
    return fmean(shares) if shares else 0.0


def reason(rows: Sequence[Row]) -> str:
    """Explain updates that taught nothing, and name the remedies."""
    share = cut_off(rows)
    limit = (
        f" {share:.0%} of the completions are cut off at the token limit: raise max_new_tokens."
        if share >= MOSTLY
        else ""
    )
    return (
        f"all completions of a group were worth the same.{limit} For more variety raise temperature or "
        "num_generations (group_size); for rewards that differ take other tasks, easier ones if none is solved"
    )


def entropy_collapse(first: Sequence[Row], last: Sequence[Row]) -> Iterator[TrainingWarning]:
    """Warn of a policy whose entropy is nearly gone before the tasks are solved."""
    if _mean(last, "solved") >= SOLVED:
        return
    # Updates without signal have no tokens in the loss, and their entropy is 0.
    first, last = ([row for row in rows if not lacks_signal(row)] for rows in (first, last))
    for key, before, now in _agents(first, last, "entropy/"):
        if 0 < now <= COLLAPSED * before:
            yield TrainingWarning(
                f"entropy collapse of {key}",
                f"it fell from {before:.3g} to {now:.3g} nats/token, so samples are nearly equal. Lower "
                "learning_rate, raise temperature, or add kl.coefficient",
            )


def growing_kl(first: Sequence[Row], last: Sequence[Row]) -> Iterator[TrainingWarning]:
    """Warn of a policy that is far from its reference and still leaves it."""
    for key, before, now in _agents(first, last, "kl/"):
        rises = last[-1][f"kl/{key}"] > last[0][f"kl/{key}"]
        if now > FAR and now > 2 * before and rises:
            yield TrainingWarning(
                f"growing KL of {key}",
                f"it rose from {before:.3g} to {now:.3g} nats/token and still rises: the policy leaves its "
                "reference. Lower learning_rate or raise kl.coefficient",
            )


def growing_length(first: Sequence[Row], last: Sequence[Row]) -> Iterator[TrainingWarning]:
    """Warn of completions that grow while the reward does not, or that reach the token limit."""
    before, now = _group_tokens(first), _group_tokens(last)
    if not before or now < LONGER * before:
        return
    share, gain = cut_off(last), _mean(last, "reward_mean") - _mean(first, "reward_mean")
    if gain <= 0 or share >= MOSTLY:
        because = (
            f"{share:.0%} reach the token limit" if share >= MOSTLY else "the reward did not rise"
        )
        yield TrainingWarning(
            "growing length",
            f"completions have {now / before:.1f} times the tokens of the first updates, and {because}. Read "
            "some, and set truncation.overlong_penalty if they are padded",
        )


COMPARISONS: Sequence[Callable[[Sequence[Row], Sequence[Row]], Iterator[TrainingWarning]]] = (
    entropy_collapse,
    growing_kl,
    growing_length,
)
"""Checks that compare the first updates with the last ones."""


def drift(
    first: Sequence[Row], last: Sequence[Row], evaluations: Sequence[Row]
) -> Iterator[TrainingWarning]:
    """Warn of a training reward that rose while the reward of a model or of held-out tasks did not follow."""
    gain = _mean(last, "reward_mean") - _mean(first, "reward_mean")
    if all("reward_model/mean" in row for row in (*first, *last)):
        scores = _mean(last, "reward_model/mean") - _mean(first, "reward_model/mean")
        if scores > DEVIATIONS * _error(first, last, "reward_model/mean") and gain < 0:
            yield TrainingWarning(
                "reward model and task apart",
                f"the score of the reward model rose by {scores:.3g} while the task's reward fell by {-gain:.3g}: "
                "the policies may exploit the model. Refit it (update_interval) or stop earlier",
            )
    ends = [row.get("reward_standard_error") for row in (*evaluations[:1], *evaluations[-1:])]
    errors = [error for error in ends if error is not None]
    if len(evaluations) < 2 or len(errors) < 2:
        return
    held_out = evaluations[-1]["reward_mean"] - evaluations[0]["reward_mean"]
    error = math.hypot(_error(first, last, "reward_mean"), *errors)
    if held_out < gain / 2 and gain - held_out > DEVIATIONS * error:
        yield TrainingWarning(
            "training and held-out apart",
            f"the reward changed by {gain:+.3g} on training problems and by {held_out:+.3g} on held-out ones: the "
            "team may memorize problems or exploit their reward. Train on more problems, and read the transcripts",
        )


def exploited_tests(evaluations: Sequence[Row]) -> Iterator[TrainingWarning]:
    """Warn of programs that pass the tests that prompts show, and fail hidden ones, more than at first."""
    rows = [row for row in evaluations if "visible_tests" in row]
    if not rows:
        return
    before, now = [row["visible_tests"] - row["hidden_tests"] for row in (rows[0], rows[-1])]
    if now > EXPLOITED and (len(rows) == 1 or now > before):
        yield TrainingWarning(
            "visible tests pass, hidden ones fail",
            f"{rows[-1]['visible_tests']:.0%} of the tests that prompts show pass, and "
            f"{rows[-1]['hidden_tests']:.0%} of the others: answers may be written for the shown tests. Read the "
            "transcripts, and set sandbox_slice=0 or another external mode",
        )


def _mean(rows: Sequence[Row], key: str) -> float:
    values = [row[key] for row in rows if key in row]
    return fmean(values) if values else 0.0


def _error(first: Sequence[Row], last: Sequence[Row], key: str) -> float:
    """Compute the standard error of the difference of two means over updates."""
    return math.hypot(*(stdev(row[key] for row in of) / math.sqrt(len(of)) for of in (first, last)))


def _agents(
    first: Sequence[Row], last: Sequence[Row], prefix: str
) -> Iterator[tuple[str, float, float]]:
    """Yield each agent with the means of its metric in the first and the last updates."""
    if not first or not last:
        return
    for key in last[-1]:
        if key.startswith(prefix) and all(key in row for row in (*first, *last)):
            yield key.removeprefix(prefix), _mean(first, key), _mean(last, key)


def _group_tokens(rows: Sequence[Row]) -> float:
    """Compute the sampled tokens of a group, of all agents."""
    groups = sum(
        value
        for row in rows
        for key, value in row.items()
        if key.startswith("turn_") and key.endswith("/groups")
    )
    return sum(row.get("tokens", 0) for row in rows) / groups if groups else 0.0
