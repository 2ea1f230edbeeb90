"""The rows of `metrics.jsonl` and `episodes.jsonl` as functions of rollouts, and warnings about these rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean, stdev
from typing import Any

import numpy as np

from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout
from llm_decpomdp.policy import Completion

WARM_START, UNTRAINED = BEFORE = ("warm_start", "untrained")
"""Kinds of rows of a warm start: its steps, and an evaluation before it."""

MEANS = ("solved", "untagged")
"""Infos whose means are metrics, besides the components of the reward."""


def reward_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Compute means over the joint samples of some rollouts; `docs/metrics.md` defines them."""
    turns = [rollout.turns for rollout in rollouts]
    metrics = _means("", turns)
    samples = [reward for group in _groups(rollouts) for reward in group.rewards]
    metrics["reward_std"] = float(np.std(samples))
    metrics["stopped_early"] = float(np.mean([rollout.stopped_early for rollout in rollouts]))
    for k in range(max(map(len, turns))):
        kth = [[rollout[k]] for rollout in turns if len(rollout) > k and rollout[k]]
        if not kth:  # stored pairs may all be of later turns
            continue
        metrics |= _means(f"turn_{k + 1}/", kth)
        metrics[f"turn_{k + 1}/groups"] = sum(len(groups) for (groups,) in kth)
    metrics |= _means("last/", [[rollout.last] for rollout in rollouts])
    for agent in {agent: 0 for group in _groups(rollouts) for agent in group.own}:
        own = [turn_mean(rollout, partial(_own_points, agent)) for rollout in turns]
        metrics[f"own/{agent}"] = float(np.mean(own))
    for agent, completions in _completions(rollouts).items():
        metrics[f"truncated/{agent}"] = float(np.mean([c.truncated for c in completions]))
        answers = (group.completions.get(agent) for group in _groups(rollouts))
        # All completions of a group answer one prompt.
        metrics[f"long_prompts/{agent}"] = sum(of[0].long_prompt for of in answers if of)
    return metrics


def evaluation_metrics(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Compute the `reward_metrics` of an evaluation, with standard errors and `n`, the number of rollouts.

    `reward_standard_error` belongs to `reward_mean`, `last/reward_standard_error` to
    `last/reward_mean`; both are `None` for a single rollout.
    """
    means = [turn_mean(rollout.turns, _rewards) for rollout in rollouts]
    last = [turn_mean([rollout.last], _rewards) for rollout in rollouts]
    return {
        **reward_metrics(rollouts),
        "reward_standard_error": _standard_error(means),
        "last/reward_standard_error": _standard_error(last),
        "n": len(rollouts),
    }


def count_tokens(rollouts: Sequence[Rollout]) -> int:
    """Count all sampled tokens, of every agent that has a tokenizer."""
    return sum(len(c.tokens) for of_agent in _completions(rollouts).values() for c in of_agent)


def episode_row(
    rollout: Rollout, update: int, phase: str, with_tokens: bool = False
) -> dict[str, Any]:
    """Return a rollout as a row of `episodes.jsonl`; `phase` is `train` or `eval`.

    `with_tokens` adds the `token_ids` and `log_probs` of every agent's completions to each group.
    """
    return {
        "update": update,
        "phase": phase,
        "start": asdict(rollout.start),
        "groups": [_row(group, with_tokens) for group in rollout.groups],
        "stopped_early": rollout.stopped_early,
        "final": rollout.final,
        **({"pooled": True} if rollout.pooled else {}),
        **({"dialogues": list(rollout.dialogues)} if rollout.dialogues else {}),
    }


def _row(group: Group, with_tokens: bool) -> dict[str, Any]:
    def of_completions(name: str) -> dict[str, list[Any]]:
        agents = group.completions.items()
        return {agent: [getattr(c, name) for c in completions] for agent, completions in agents}

    row = {
        "turn": group.turn,
        "parent": group.parent and group.parent._asdict(),
        "prompts": group.prompts,
        "completions": of_completions("text"),
        "finish_reasons": of_completions("finish_reason"),
        "joint": group.joint,
        "rewards": list(group.rewards),
        "infos": list(group.infos),
        "chosen": group.chosen,
        **({"anchors": group.anchors} if group.anchors else {}),
        **({"scores": list(group.scores)} if group.scores else {}),
        **({"own": {a: list(points) for a, points in group.own.items()}} if group.own else {}),
    }
    if with_tokens:
        row |= {"token_ids": of_completions("tokens"), "log_probs": of_completions("log_probs")}
    return row


Values = Callable[[Group], Sequence[float]]
Turns = Sequence[Sequence[Group]]
"""The groups of each turn of a rollout."""


def _groups(rollouts: Sequence[Rollout]) -> list[Group]:
    return [group for rollout in rollouts for group in rollout.groups]


def _completions(rollouts: Sequence[Rollout]) -> dict[str, list[Completion]]:
    """Collect all completions of each agent."""
    by_agent: dict[str, list[Completion]] = {}
    for group in _groups(rollouts):
        for agent, completions in group.completions.items():
            by_agent.setdefault(agent, []).extend(completions)
    return by_agent


def _rewards(group: Group) -> Sequence[float]:
    return group.rewards


def _means(prefix: str, rollouts: Sequence[Turns]) -> dict[str, float]:
    """Compute means over samples, groups, turns, then rollouts, of the reward and the infos they all have."""
    groups = [group for turns in rollouts for turn in turns for group in turn]
    infos = [info for group in groups for info in group.infos]
    # Infos may differ from step to step; a mean over some of them would compare different samples.
    shared = set(infos[0]).intersection(*infos)
    keys = [key for key in infos[0] if key in shared]
    keys = [key for key in keys if key in MEANS or key.startswith("reward/")]
    values: dict[str, Values] = {"reward_mean": _rewards}
    values |= {key: partial(_infos, key) for key in keys}
    return {
        f"{prefix}{name}": float(np.mean([turn_mean(turns, of) for turns in rollouts]))
        for name, of in values.items()
    }


def _infos(key: str, group: Group) -> Sequence[float]:
    return [info[key] for info in group.infos]


def _own_points(agent: str, group: Group) -> Sequence[float]:
    return group.own.get(agent, (0.0,))


def turn_mean(turns: Turns, of: Values) -> float:
    """Compute the mean over the joint samples of a group, then over the groups of a turn, then over turns."""
    return float(
        np.mean([np.mean([np.mean(of(group)) for group in turn]) for turn in turns if turn])
    )


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


# Thresholds of warnings are rules of thumb: a warning is a reason to look, not a proof.
WARNING_UPDATES = 5  # updates whose mean is compared, and updates without signal in a row that are worth a warning
TRUNCATED_SHARE = 0.5  # share of completions at the token limit from which on that is likely why
COLLAPSED = 0.1  # entropy over that of the first updates: hardly any variety is left
LARGE_KL = 0.2  # divergence from the reference in nats/token that is far, if it still grows
LONGER = 1.5  # tokens of a group over those of the first updates: a growing length
DEVIATIONS = 2.0  # standard errors by which the gain in training must exceed the held-out gain
EXPLOITED = 0.25  # visible less hidden share of tests passed: answers may be made for the former
SOLVED_SHARE = 0.95  # share of solved samples from which on equal answers are no fault

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
    """Find what is doubtful at the end of the rows of updates and of evaluations, both in order.

    The newest updates are compared with the first ones: `WARNING_UPDATES` of each are enough, and one evaluation
    of each.
    """
    found = [*exploited_tests(evaluations)]
    first, last = updates[:WARNING_UPDATES], updates[-WARNING_UPDATES:]
    if len(last) == WARNING_UPDATES and all(map(lacks_signal, last)):
        text = f"{WARNING_UPDATES} updates in a row taught nothing: {reason(last)}"
        found.insert(0, TrainingWarning("no group with signal", text))
    if len(updates) >= 2 * WARNING_UPDATES:
        for check in (entropy_collapse, growing_kl, growing_length):
            found += check(first, last)
        found += drift(first, last, evaluations)
    return found


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
        if share >= TRUNCATED_SHARE
        else ""
    )
    return (
        f"all completions of a group were worth the same.{limit} For more variety raise temperature or "
        "group_size; for rewards that differ take other tasks, easier ones if none is solved"
    )


def entropy_collapse(first: Sequence[Row], last: Sequence[Row]) -> Iterator[TrainingWarning]:
    """Warn of a policy whose entropy is nearly gone before the tasks are solved."""
    if _mean_of(last, "solved") >= SOLVED_SHARE:
        return
    # Updates without signal have no tokens in the loss, and their entropy is 0.
    first, last = ([row for row in rows if not lacks_signal(row)] for rows in (first, last))
    for key, before, now in _changes(first, last, "entropy/"):
        if 0 < now <= COLLAPSED * before:
            yield TrainingWarning(
                f"entropy collapse of {key}",
                f"it fell from {before:.3g} to {now:.3g} nats/token, so samples are nearly equal. Lower "
                "learning_rate, raise temperature, or add kl.coefficient",
            )


def growing_kl(first: Sequence[Row], last: Sequence[Row]) -> Iterator[TrainingWarning]:
    """Warn of a policy that is far from its reference and still leaves it."""
    for key, before, now in _changes(first, last, "kl/"):
        rises = last[-1][f"kl/{key}"] > last[0][f"kl/{key}"]
        if now > LARGE_KL and now > 2 * before and rises:
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
    share, gain = cut_off(last), _mean_of(last, "reward_mean") - _mean_of(first, "reward_mean")
    if gain <= 0 or share >= TRUNCATED_SHARE:
        because = (
            f"{share:.0%} reach the token limit"
            if share >= TRUNCATED_SHARE
            else "the reward did not rise"
        )
        yield TrainingWarning(
            "growing length",
            f"completions have {now / before:.1f} times the tokens of the first updates, and {because}. Read "
            "some, and set truncation.overlong_penalty if they are padded",
        )


def drift(
    first: Sequence[Row], last: Sequence[Row], evaluations: Sequence[Row]
) -> Iterator[TrainingWarning]:
    """Warn of a training reward that rose while the reward of a model or of held-out tasks did not follow."""
    gain = _mean_of(last, "reward_mean") - _mean_of(first, "reward_mean")
    if all("reward_model/mean" in row for row in (*first, *last)):
        scores = _mean_of(last, "reward_model/mean") - _mean_of(first, "reward_model/mean")
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


def _mean_of(rows: Sequence[Row], key: str) -> float:
    values = [row[key] for row in rows if key in row]
    return fmean(values) if values else 0.0


def _error(first: Sequence[Row], last: Sequence[Row], key: str) -> float:
    """Compute the standard error of the difference of two means over updates."""
    # The squares of independent errors add up.
    return math.hypot(*(stdev(row[key] for row in of) / math.sqrt(len(of)) for of in (first, last)))


def _changes(
    first: Sequence[Row], last: Sequence[Row], prefix: str
) -> Iterator[tuple[str, float, float]]:
    """Yield each agent with the means of its metric in the first and the last updates."""
    if not first or not last:
        return
    for key in last[-1]:
        if key.startswith(prefix) and all(key in row for row in (*first, *last)):
            yield key.removeprefix(prefix), _mean_of(first, key), _mean_of(last, key)


def _group_tokens(rows: Sequence[Row]) -> float:
    """Compute the sampled tokens of a group, of all agents."""
    groups = sum(
        value
        for row in rows
        for key, value in row.items()
        if key.startswith("turn_") and key.endswith("/groups")
    )
    return sum(row.get("tokens", 0) for row in rows) / groups if groups else 0.0
