"""Stored episodes played again: the same starts, the same completions, nothing sampled.

Works with every row of `episodes.jsonl`: chains and trees of runs, and evaluations. Each joint sample of a group
is stepped once, in a branch of the state that the group's parents lead to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.rollouts.environment import StepOutcome, TextEnv, reset_branch, step
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Start
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import ASKS_OUTSIDE, asks_outside, load_stored_config
from llm_decpomdp.benchmarks.evaluation.baselines import TALKING, find_baseline_name
from llm_decpomdp.benchmarks.evaluation.play import read_rollout
from llm_decpomdp.benchmarks.runs.manifest import change_of_data, load_envs, pin_commit
from llm_decpomdp.benchmarks.runs.results import Row, stored_rows, task_name
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import RunFolder

# Enough programs for all cores, and few environments in memory.
AT_A_TIME = 32
"""Rows that are played in step."""


@dataclass(frozen=True)
class StoredGroup:
    """A stored group and its position."""

    line: int
    """Line of `episodes.jsonl`, counted from 1."""
    row: Row
    index: int
    """Position of the group in its row, counted from 0."""
    group: Group

    def position(self) -> dict[str, Any]:
        """Return line, task, turn and group, counted from 1."""
        task, turn = task_name(self.row), self.group.turn + 1
        return {"line": self.line, "task": task, "turn": turn, "group": self.index + 1}


@dataclass(frozen=True)
class Replayed:
    """A group that was played again."""

    place: StoredGroup
    env: TextEnv
    """The environment in the state that the group was sampled in."""
    prompts: Mapping[str, str]
    """Observations of the agents in that state, as they are now."""
    outcomes: tuple[StepOutcome, ...]
    """Outcomes of the joint samples."""


@dataclass(frozen=True)
class Unreached:
    """A group that cannot be played again, since its state is not reached any more."""

    place: StoredGroup
    reason: str


State = tuple[TextEnv, Mapping[str, str]] | str
"""An environment and its observations, or the reason why there is none."""

Step = tuple[int, Parent]
"""A line, and the joint sample of a group in it."""


def replay(
    envs: Mapping[str, TextEnv], rows: Iterable[tuple[int, Row]]
) -> Iterator[Replayed | Unreached]:
    """Play rows again in batches, turn by turn.

    Args:
        envs: The environment of each phase; they are reset, and played in branches.
        rows: Rows of `episodes.jsonl`, each with its line.

    Raises:
        ConfigError: If nothing says how an episode began.
        SandboxError: If programs cannot be run.
    """
    pending = iter(rows)
    while batch := list(islice(pending, AT_A_TIME)):
        starts: dict[int, State] = {}
        places: list[StoredGroup] = []
        for line, row in batch:
            rollout = read_rollout(row)
            starts[line] = _start(line, rollout.start, envs[row["phase"]])
            places += [
                StoredGroup(line, row, index, group) for index, group in enumerate(rollout.groups)
            ]
        yield from _play(places, starts)


def _start(line: int, start: Start, env: TextEnv) -> State:
    if start == Start():
        raise ConfigError(f"line {line}: nothing says how the episode began, neither task nor seed")
    try:
        return reset_branch(env, start)
    except KeyError as error:
        return str(error.args[0])


def _play(
    places: Sequence[StoredGroup], starts: Mapping[int, State]
) -> Iterator[Replayed | Unreached]:
    """Play the groups of some rows turn by turn, from the starts of their lines."""
    # Only states that other groups start from are kept: an environment is large.
    parents = {(place.line, place.group.parent) for place in places}
    outcomes: dict[Step, StepOutcome] = {}  # those that other groups come from
    # Turn by turn, because a group starts in a state that its parent leads to.
    for turn in range(1 + max(place.group.turn for place in places)):
        states: list[tuple[StoredGroup, TextEnv, Mapping[str, str]]] = []
        for place in (place for place in places if place.group.turn == turn):
            state = _state(place, starts, outcomes)
            if isinstance(state, str):
                yield Unreached(place, state)
            else:
                states.append((place, *state))
        groups = [place.group for place, _, _ in states]
        results = step(
            [env for _, env, _ in states],
            [group.completions for group in groups],
            [group.joint for group in groups],
        )
        for (place, env, prompts), result in zip(states, results, strict=True):
            for sample, outcome in enumerate(result):
                if (key := (place.line, Parent(place.index, sample))) in parents:
                    outcomes[key] = outcome
            yield Replayed(place, env, prompts, tuple(result))


def _state(
    place: StoredGroup, starts: Mapping[int, State], outcomes: Mapping[Step, StepOutcome]
) -> State:
    """Return the state that a group was sampled in."""
    if place.group.parent is None:
        return starts[place.line]
    outcome = outcomes.get((place.line, place.group.parent))
    if outcome is None:
        return "the group before it cannot be played"
    if not outcome.prompts:
        return "the episode is over by now"
    return outcome.env, outcome.prompts


@dataclass(frozen=True)
class StoredEpisodes:
    """The episodes of a folder."""

    path: Path
    envs: Mapping[str, DecPOMDPEnv]
    """Environments by phase."""
    data: Mapping[str, Mapping[str, Any]]
    """Descriptions of the data by phase, from the manifest; empty where it has none."""
    known_prompts: bool = True
    """False if the prompts of later turns depend on an expert outside, which is not asked again."""
    talking: bool = False
    """True if prompts may go on after what the environment writes."""

    def rows(self, phases: Collection[str] = ("train", "eval")) -> Iterator[tuple[int, Row]]:
        """Yield the rows of `episodes.jsonl`, each with its line, counted from 1.

        Raises:
            ConfigError: If a row has no groups, as in early versions.
        """
        for line, row in stored_rows(self.path / "episodes.jsonl"):
            if row["phase"] in phases:
                yield line, row

    def changes_of_data(self) -> list[str]:
        """Return known changes of the data since the episodes were played, in words."""
        changes = (
            change_of_data(phase, before, self.envs[phase].metadata["data"])
            for phase, before in self.data.items()
        )
        return [change for change in changes if change is not None]


def open_episodes(folder: Path) -> StoredEpisodes:
    """Open the stored episodes of a run or an evaluation.

    Raises:
        ConfigError: If there are none, or nothing says which environment they were played in.
        RunError: If the data cannot be loaded.
    """
    if not (folder / "episodes.jsonl").is_file():
        raise ConfigError(f"{folder} holds no episodes.jsonl: name a run or an evaluation")
    place = RunFolder(folder)
    manifest = place.read_manifest() if place.manifest.is_file() else {}
    if manifest.get("kind") == "evaluation":
        return _evaluation(folder, manifest)
    if not place.config.is_file():
        raise ConfigError(
            f"{folder} holds episodes, but neither a run's config.yaml nor an evaluation's manifest.json"
        )
    outside = asks_outside(place.config)
    config = load_stored_config(place.config)
    train, held_out = load_envs(config, manifest.get("data"))
    envs = {"train": train, "eval": held_out}
    return StoredEpisodes(folder, envs, _data(manifest, envs), known_prompts=not outside)


def _evaluation(folder: Path, manifest: Mapping[str, Any]) -> StoredEpisodes:
    identity = manifest["identity"]
    options = dict(identity["environment"])
    env_id = options.pop("id")
    if not env_id:
        raise ConfigError(
            f"{folder} evaluates {manifest['environment']}, which no registered id names: register the "
            "environment, or pass it to llm_decpomdp.benchmarks.analysis.replay"
        )
    outside = options.get("external_mode") == ASKS_OUTSIDE
    if outside:
        options["external_mode"] = "plain"
        options = {key: v for key, v in options.items() if not key.startswith("expert_")}
    if source := pin_commit(manifest.get("data"), "eval"):
        options["source"] = source
    try:
        envs = {"eval": make(env_id, **options)}
    except (KeyError, TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"{folder}: {error.args[0]}") from None
    talking = find_baseline_name(identity["about"]) in TALKING
    return StoredEpisodes(folder, envs, _data(manifest, envs), not outside, talking)


def _data(manifest: Mapping[str, Any], envs: Collection[str]) -> dict[str, Mapping[str, Any]]:
    data = manifest.get("data", {})
    return {phase: data.get(phase, {}) for phase in envs}
