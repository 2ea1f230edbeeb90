"""Comparisons of joint samples, from a file of pairs, and the text that a reward model reads of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.options import Options, option
from llm_decpomdp.utils.text import parse_lines, shorten


class RewardModelOptions(Options):
    """The training of a reward model on comparisons."""

    held_out: float = option(0.2, gt=0, lt=1)
    """Share of the tasks whose pairs are held out to measure the model; of the pairs if there is one task."""
    penalty: float = option(0.01, gt=0)
    """Weight of half the squared norm of the model's weights in the loss."""
    part_length: int = option(4000, ge=16)
    """Maximum number of characters of a prompt or an answer in the text that the model reads; the middle of a
    longer one is left out."""
    seed: int = option(0, ge=0)
    """Draws what is held out."""


class Sample(NamedTuple):
    """A joint sample as a reward model reads it."""

    prompts: Mapping[str, str]  # the prompt of each agent
    answers: Mapping[str, str]  # the answer of each agent


class JointComparison(NamedTuple):
    """Two joint samples for the same prompts, the first preferred."""

    task: str
    winner: Sample
    loser: Sample


def team_text(sample: Sample, agents: Sequence[str], limit: int) -> str:
    """Write the text of a joint sample: the prompt of every agent, then the answer of each."""
    parts = [(f"{agent} sees", sample.prompts[agent]) for agent in agents]
    parts += [(f"{agent} answers", sample.answers[agent]) for agent in agents]
    # Each part is shortened alone: a text shortened as a whole would lose the last agent's answer.
    return "\n\n".join(f"[{title}]\n{shorten(text, limit)}" for title, text in parts)


def read_comparisons(path: Path, agents: Sequence[str], environment: str) -> list[JointComparison]:
    """Read the pairs of a JSONL file, as `export --pairs --to jsonl` writes them.

    The rows of a pair make one comparison; agents that said the same in both samples stand in `others`.

    Args:
        path: The file.
        agents: All agents of the environment.
        environment: Its id.

    Raises:
        ValueError: If the file cannot be read, has no pairs, or pairs of another form, environment or team; names
            the line.
    """
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in parse_lines(path, "pairs", partial(_row, environment=environment)):
        groups.setdefault(tuple(row[key] for key in PAIR), []).append(row)
    try:
        return [_comparison(rows, agents) for rows in groups.values()]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


PAIR = ("run", "rollout", "group", "chosen_sample", "rejected_sample")
"""Columns that tell a pair from all others."""

NEEDED = (*PAIR, "task", "agent", "prompt", "chosen", "rejected")
"""Columns of a file of pairs that are read, besides `environment` and `others`."""


def _row(line: str, environment: str) -> dict[str, Any]:
    row = json.loads(line)
    missing = [key for key in NEEDED if not isinstance(row, dict) or key not in row]
    if missing:
        raise ValueError(
            f"no {', '.join(missing)}: a line is a pair, as `export --pairs --to jsonl` writes it"
        )
    of_row = row.get("environment")
    if of_row is not None and of_row != environment:
        raise ValueError(
            f"a pair of {of_row}, and the configuration is of {environment}: set env.id"
        )
    return dict(row)


def _comparison(rows: Sequence[Mapping[str, Any]], agents: Sequence[str]) -> JointComparison:
    alike = json.loads(rows[0].get("others") or "{}")
    prompts = {agent: prompt for agent, (prompt, _) in alike.items()}
    winner = {agent: answer for agent, (_, answer) in alike.items()}
    loser = dict(winner)
    for row in rows:
        agent = row["agent"]
        prompts[agent], winner[agent], loser[agent] = row["prompt"], row["chosen"], row["rejected"]
    if set(prompts) != set(agents):
        raise ValueError(
            f"a pair of task {rows[0]['task']} is of the agents {', '.join(sorted(prompts))}, and the environment "
            f"has {', '.join(agents)}: set env.num_agents, or export the pairs again if they are older than "
            "`others`"
        )
    return JointComparison(str(rows[0]["task"]), Sample(prompts, winner), Sample(prompts, loser))


def use_scores_as_rewards(rollout: Rollout) -> Rollout:
    """Return a rollout, and what it is compared with, as a learner of scores is given them: rewarded by them."""
    groups = tuple(replace(group, rewards=group.scores) for group in rollout.groups)
    opponent = None if rollout.opponent is None else use_scores_as_rewards(rollout.opponent)
    return replace(rollout, groups=groups, opponent=opponent)
