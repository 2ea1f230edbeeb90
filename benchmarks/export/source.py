"""Sources of exports: the groups of a run or an evaluation, with returns and advantages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from llm_decpomdp.algorithms import ALGORITHMS, Group, Rollout
from llm_decpomdp.algorithms.learning.advantages import group_advantages, progress, returns
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.evaluation.play import read_rollout
from llm_decpomdp.benchmarks.runs.results import Row, stored_rows, task_name
from llm_decpomdp.benchmarks.runs.setup import learner_options, load_stored_config, team_spec
from llm_decpomdp.policy import to_messages
from llm_decpomdp.utils.storage import RunFolder

PHASES = ("train", "eval")


class ExportColumn(NamedTuple):
    """A column of an export."""

    kind: str
    """Type of `datasets.Value`. It ends with `[]` if a row has a list of them."""
    meaning: str


PLACE = {
    "run": ExportColumn("string", "name of the folder of the run or evaluation"),
    "environment": ExportColumn("string", "id of the environment"),
    "task": ExportColumn("string", "id of the task, or `seed n` if a seed chose the task"),
    "phase": ExportColumn("string", "`train` or `eval`; also the split"),
    "update": ExportColumn(
        "int64", "number of complete updates, with the update that the samples belong to"
    ),
    "rollout": ExportColumn(
        "int64", "line of `episodes.jsonl`, counted from 0: all samples with the same start"
    ),
    "group": ExportColumn("int64", "position of the group in its rollout, counted from 0"),
    "parent_group": ExportColumn("int64", "the group of the previous turn; null at the start"),
    "parent_sample": ExportColumn(
        "int64", "the joint sample of that group that precedes this group"
    ),
    "turn": ExportColumn("int64", "turn of the episode, counted from 0"),
}
"""Columns of the position of a row in a run; part of every export."""


DIALOGUE = {
    "history": ExportColumn(
        "string",
        "JSON: the messages before the prompt, where the agent reads its history (`model.history: chat`)",
    )
}


@dataclass(frozen=True)
class Content:
    """The content of an export."""

    name: str
    columns: Mapping[str, ExportColumn]
    rows: Callable[[str], Iterator[Row]]
    """Rows of a phase, each with all columns."""


@dataclass(frozen=True)
class Decision:
    """A group of joint samples as stored, with returns and advantages."""

    place: Row
    group: Row
    """The group as in `episodes.jsonl`."""
    samples: Group
    returns: Sequence[float]
    advantages: Mapping[str, Sequence[float]]
    """Advantages of completions, by agent that learned from the group."""

    def history(self, agent: str) -> dict[str, str]:
        """Return the value of `DIALOGUE`."""
        messages = to_messages(self.samples.prompts[agent])[:-1]
        return {"history": json.dumps(messages, ensure_ascii=False)}


class EpisodeSource:
    """A run or an evaluation.

    Args:
        folder: Its folder.

    Raises:
        ConfigError: If it has no episodes, or its configuration is not valid.
    """

    def __init__(self, folder: Path) -> None:
        files = RunFolder(folder) if folder.is_dir() else None
        if files is None or not files.episodes.is_file():
            raise ConfigError(
                f"{folder} has no episodes.jsonl: give the folder of a run or an evaluation"
            )
        self.name = folder.resolve().name
        self.manifest = files.read_manifest() if files.manifest.exists() else {}
        self.config = load_stored_config(files.config) if files.config.exists() else None
        self._episodes = files.episodes

    def rows(self) -> Iterator[Row]:
        """Return the rows of `episodes.jsonl`; raise a `ConfigError` if they are of an early version."""
        return (row for _, row in stored_rows(self._episodes))

    @property
    def has_dialogues(self) -> bool:
        """True if prompts of some agents follow the earlier turns of their episode."""
        return any(row.get("dialogues") for row in self.rows())

    def decisions(self, phase: str) -> Iterator[Decision]:
        """Yield all groups of a phase, in the order of the run."""
        # An evaluation of scripted agents has no configuration.
        discount = self.config.env.discount if self.config else 1.0
        # Evaluations have no advantages.
        config = self.config if phase == "train" else None
        for number, row in enumerate(self.rows()):
            # Lines are numbered over both phases.
            if row["phase"] != phase:
                continue
            rollout = read_rollout(row)
            credits = _advantages(rollout, config, row["update"], self.manifest)
            parts = zip(row["groups"], returns(rollout, discount), credits, strict=True)
            for index, (group, values, advantages) in enumerate(parts):
                place = self._place(row, number, index)
                samples = rollout.groups[index]
                yield Decision(place, group, samples, values.tolist(), advantages)

    def models(self, agents: Sequence[str]) -> dict[str, str | None]:
        """Return the name of each agent's model, or `None` if it has no model. Empty without a configuration."""
        if self.config is None:
            return {}
        team = team_spec(self.config, agents)
        return {agent: team.policies[policy].name for agent, policy in team.agents.items()}

    def _place(self, row: Row, number: int, index: int) -> Row:
        group = row["groups"][index]
        parent = group["parent"] or {"group": None, "sample": None}
        return {
            "run": self.name,
            "environment": self.manifest.get("environment"),
            "task": task_name(row),
            "phase": row["phase"],
            "update": row["update"],
            "rollout": number,
            "group": index,
            "parent_group": parent["group"],
            "parent_sample": parent["sample"],
            "turn": group["turn"],
        }


def _advantages(
    rollout: Rollout, config: Config | None, update: int, manifest: Row
) -> list[dict[str, list[float]]]:
    """Return the advantages of each group by agent, as the learner computes them.

    The rewards are the scores of the reward model, if there is one. There are no advantages without a
    configuration, for an algorithm that learns from pairs, and with a critic or running baselines, which
    `episodes.jsonl` does not have.
    """
    if config is None:
        return [{} for _ in rollout.groups]
    agents, updates = list(rollout.groups[0].completions), manifest.get("updates", 1)
    team = team_spec(config, agents)
    algorithm = ALGORITHMS[config.algorithm.name].configure(**config.algorithm.own_options)
    options = learner_options(config, updates, team)
    if not algorithm.can_recompute_advantages(options):
        return [{} for _ in rollout.groups]
    from llm_decpomdp.algorithms.rewards.comparisons import use_scores_as_rewards

    learning = [a for a in agents if team.policies[team.agents[a]].can_be_trained]
    groups = group_advantages(
        [use_scores_as_rewards(rollout) if config.algorithm.reward_model else rollout],
        learning,
        algorithm,
        options,
        # The number of a row counts the update that it belongs to.
        progress=progress(update - 1, updates),
    )
    return [
        {agent: values.tolist() for agent, values in group.advantages.items()} for group in groups
    ]
