"""Stored episodes played and graded again: the same starts and completions, and nothing sampled.

This works with every row of `episodes.jsonl`, of runs and evaluations. Each joint sample of a group is played
once, in a branch of the state that the group's parents lead to. After a change of rules, or on another machine,
the result must agree with the stored one, or `Regrading` lists the differences.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms import Group, Start, TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import (
    Parent,
    StepOutcome,
    reset_branch,
    step_branches,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError, raise_run_errors, writing
from llm_decpomdp.benchmarks.evaluation.baselines import TALKING, find_baseline_name
from llm_decpomdp.benchmarks.evaluation.play import read_rollout
from llm_decpomdp.benchmarks.runs.data import change_of_data, load_envs, pin_commit
from llm_decpomdp.benchmarks.runs.results import Row, stored_rows, task_name
from llm_decpomdp.benchmarks.runs.setup import ASKS_OUTSIDE, asks_outside, load_stored_config
from llm_decpomdp.branching import record
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.registry import make
from llm_decpomdp.utils.storage import RunFolder, incomplete_line, write_atomically

# Rows that run together: enough programs for all cores, few environments in memory.
AT_A_TIME = 32


@dataclass(frozen=True)
class StoredGroup:
    """A stored group and its position."""

    line: int
    """Line of `episodes.jsonl`, counted from 1."""
    row: Row
    index: int
    group: Group

    def position(self) -> dict[str, Any]:
        """Return line, task, turn and group, counted from 1."""
        task, turn = task_name(self.row), self.group.turn + 1
        return {"line": self.line, "task": task, "turn": turn, "group": self.index + 1}


@dataclass(frozen=True)
class Replayed:
    """A group after it was played again."""

    place: StoredGroup
    env: TextEnv
    prompts: Mapping[str, str]
    """The present observations of the agents in that state."""
    outcomes: tuple[StepOutcome, ...]


@dataclass(frozen=True)
class Unreached:
    """A group that cannot be played again, because its state is not reached any more."""

    place: StoredGroup
    reason: str


State = tuple[TextEnv, Mapping[str, str]] | str
"""An environment and its observations, or the reason for their absence."""

Step = tuple[int, Parent]
"""A line, and the joint sample of a group in it."""


def replay(
    envs: Mapping[str, TextEnv], rows: Iterable[tuple[int, Row]]
) -> Iterator[Replayed | Unreached]:
    """Play rows again in batches, turn by turn.

    Args:
        envs: The environment of each phase; they are reset and branched.
        rows: Rows of `episodes.jsonl`, each with its line.

    Raises:
        ConfigError: If an episode has neither task nor seed.
        SandboxError: If programs cannot be run.
    """
    pending = iter(rows)
    while batch := list(islice(pending, AT_A_TIME)):
        starts: dict[int, State] = {}
        places: list[StoredGroup] = []
        for line, row in batch:
            rollout = read_rollout(row)
            if rollout.start == Start():
                raise ConfigError(f"line {line}: the episode has neither a task nor a seed")
            try:
                starts[line] = reset_branch(envs[row["phase"]], rollout.start)
            except KeyError as error:
                # The text of a KeyError itself would be in quotes.
                starts[line] = str(error.args[0])
            groups = enumerate(rollout.groups)
            places += [StoredGroup(line, row, index, group) for index, group in groups]
        yield from _play(places, starts)


def _play(
    places: Sequence[StoredGroup], starts: Mapping[int, State]
) -> Iterator[Replayed | Unreached]:
    # Only states in which other groups start are kept, as an environment is large.
    parents = {(place.line, place.group.parent) for place in places}
    outcomes: dict[Step, StepOutcome] = {}
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
        results = step_branches(
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
    if place.group.parent is None:
        return starts[place.line]
    outcome = outcomes.get((place.line, place.group.parent))
    if outcome is None:
        return "the group before it cannot be played"
    if not outcome.prompts:
        return "the episode has already ended"
    return outcome.env, outcome.prompts


@dataclass(frozen=True)
class StoredEpisodes:
    """The episodes of a folder."""

    path: Path
    envs: Mapping[str, DecPOMDPEnv]
    data: Mapping[str, Mapping[str, Any]]
    """Descriptions of the data by phase, from the manifest."""
    known_prompts: bool = True
    """False if the prompts of later turns depend on an expert model, which is not called again."""
    talking: bool = False
    """True if prompts may have a text after that of the environment."""

    def rows(self, phases: Collection[str] = ("train", "eval")) -> Iterator[tuple[int, Row]]:
        """Yield the rows of `episodes.jsonl`, each with its line, counted from 1.

        Raises:
            ConfigError: If a row has no groups, as in early versions.
        """
        for line, row in stored_rows(self.path / "episodes.jsonl"):
            if row["phase"] in phases:
                yield line, row

    def changes_of_data(self) -> list[str]:
        """Return sentences on changes of the data since the episodes were played."""
        changes = (
            change_of_data(phase, self.data.get(phase, {}), env.metadata["data"])
            for phase, env in self.envs.items()
        )
        return [change for change in changes if change is not None]


def open_episodes(folder: Path) -> StoredEpisodes:
    """Open the stored episodes of a run or an evaluation.

    Raises:
        ConfigError: If there are none, or their environment is unknown.
        RunError: If the data cannot be loaded.
    """
    if not (folder / "episodes.jsonl").is_file():
        raise ConfigError(
            f"{folder} has no episodes.jsonl: give the folder of a run or an evaluation"
        )
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
    return StoredEpisodes(folder, envs, manifest.get("data", {}), known_prompts=not outside)


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
        # The replies of the expert are in the stored prompts.
        options["external_mode"] = "plain"
        options = {key: v for key, v in options.items() if not key.startswith("expert_")}
    # The data on the hub may have changed since the evaluation.
    if source := pin_commit(manifest.get("data"), "eval"):
        options["source"] = source
    try:
        envs = {"eval": make(env_id, **options)}
    except (KeyError, TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"{folder}: {error.args[0]}") from None
    talking = find_baseline_name(identity["about"]) in TALKING and "order" not in options
    return StoredEpisodes(folder, envs, manifest.get("data", {}), not outside, talking)


# Other machines may round the last digit differently.
TOLERANCE = 1e-9

SHOWN = 20
"""Number of differences that are printed; a file has all."""

WIDTH = 120

BEFORE = 20
"""Characters that are printed before the first difference of two texts."""


@dataclass(frozen=True)
class Difference:
    """A difference between a stored and a replayed value."""

    line: int
    """Line of `episodes.jsonl`; this and all other numbers are counted from 1."""
    task: str
    turn: int
    group: int
    sample: int | None
    """Joint sample; `None` for the whole group."""
    what: str
    was: Any
    now: Any

    def __str__(self) -> str:
        sample = "" if self.sample is None else f", sample {self.sample}"
        where = f"line {self.line} ({self.task}), turn {self.turn}, group {self.group}{sample}"
        was, now = self.was, self.now
        if isinstance(was, str) and isinstance(now, str):
            equal = [before == after for before, after in zip(was, now, strict=False)]
            # Long prompts mostly agree, so only the part around the first difference is shown.
            # The added False is the end of the shorter text, if it begins the other.
            begin = max(0, [*equal, False].index(False) - BEFORE)
            was, now = was[begin:], now[begin:]
        return f"{where}: {self.what} was {_short(was)}, is {_short(now)}"


@dataclass(frozen=True)
class Regrading:
    """The result of grading a folder's episodes again."""

    episodes: int
    samples: int
    """Number of joint samples that were graded again."""
    data: tuple[str, ...]
    """Sentences on changes of the data since the episodes were played."""
    differences: tuple[Difference, ...]
    incomplete: int | None = None
    """Number of the last line, if it is incomplete and was not graded."""

    @property
    def agrees(self) -> bool:
        """True if all episodes were graded again without a difference."""
        return not self.differences and self.incomplete is None

    def lines(self) -> list[str]:
        """Return the result as text: changes of the data, numbers of checks, differences."""
        lines = [f"{text}; this may cause the differences below" for text in self.data]
        lines.append(f"{self.episodes} episodes, {self.samples} joint samples graded again")
        if self.incomplete is not None:
            lines.append(f"line {self.incomplete} is incomplete and was not graded")
        if not self.differences:
            whole = "all" if self.agrees else "all others"
            return [*lines, f"{whole} agree: rewards, components, numbers, tests and prompts"]
        lines.append(f"{len(self.differences)} differences")
        lines += map(str, self.differences[:SHOWN])
        more = len(self.differences) - SHOWN
        return [*lines, f"... and {more} more: --output FILE writes all"] if more > 0 else lines


def regrade(folder: Path, output: Path | None = None) -> Regrading:
    """Grade the episodes of a run or an evaluation again.

    Args:
        folder: Its folder, which is not changed.
        output: A file of JSON Lines, one for each difference.

    Raises:
        ConfigError: If it holds no episodes, or their environment is unknown.
        RunError: If the data cannot be loaded, programs cannot be run, or the output cannot be written.
    """
    episodes = open_episodes(folder)
    if next(episodes.rows(), None) is None:
        raise ConfigError(f"{folder}: episodes.jsonl is empty, so there is nothing to grade")
    with raise_run_errors():
        result = compare(episodes, replay(episodes.envs, episodes.rows()))
    result = replace(result, incomplete=incomplete_line(folder / "episodes.jsonl"))
    if output is not None:
        rows = (json.dumps(asdict(difference)) + "\n" for difference in result.differences)
        with writing(output):
            write_atomically(output, "".join(rows))
    return result


def compare(episodes: StoredEpisodes, groups: Iterable[Replayed | Unreached]) -> Regrading:
    """Compare replayed groups with the stored ones."""
    lines, samples = set(), 0
    differences: list[Difference] = []
    for group in groups:
        if isinstance(group, Replayed):
            lines.add(group.place.line)
            samples += len(group.outcomes)
        differences += find_differences(group, episodes)
    # Groups are played turn by turn, but listed line by line.
    # Differences of a whole group have no sample, and come before those of its samples.
    differences.sort(key=lambda d: (d.line, d.group, d.sample or 0))
    return Regrading(len(lines), samples, tuple(episodes.changes_of_data()), tuple(differences))


def find_differences(group: Replayed | Unreached, episodes: StoredEpisodes) -> list[Difference]:
    """Return the differences of a group in prompts, rewards, infos and tests."""
    place = group.place
    if isinstance(group, Unreached):
        return [_difference(place, None, "the state", "there", group.reason)]
    changes: list[Difference] = []
    # An expert model is not called again, so later prompts are unknown.
    if place.group.turn == 0 or episodes.known_prompts:
        for agent, now in group.prompts.items():
            was = place.group.prompts.get(agent)
            # The baseline joins the answers of team-mates to the prompt by an empty line.
            if was != now and not (episodes.talking and was and was.startswith(f"{now}\n\n")):
                changes.append(_difference(place, None, f"the prompt of {agent}", was, now))
    for sample, outcome in enumerate(group.outcomes):
        changes += [
            _difference(place, sample, *change)
            for change in _sample_differences(place, sample, outcome, episodes)
        ]
    return changes


def _sample_differences(
    place: StoredGroup, sample: int, outcome: StepOutcome, episodes: StoredEpisodes
) -> Iterator[tuple[str, Any, Any]]:
    was, now = place.group.infos[sample], outcome.info
    reward: tuple[float | None, float | None] = (place.group.rewards[sample], outcome.reward)
    keys = [*was, *(key for key in now if key not in was)]
    if not episodes.known_prompts:
        keys = [key for key in keys if key in was and key in now]  # the mode has others
    numbers = {"reward": reward, **{key: (was.get(key), now.get(key)) for key in keys}}
    for subject, (before, after) in numbers.items():
        if (
            before is None
            or after is None
            or not math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        ):
            yield subject, before, after
    final: Row = place.row["final"] or {}
    if place.group.chosen == sample and final and (again := record(outcome.env)) is not None:
        if newest := len(again["turns"]):  # none before a first answer, where messages come first
            turns = (row["turns"][newest - 1] for row in (final, again))
            yield from _test_differences(*(turn["verdict"] for turn in turns))


def _test_differences(
    was: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    before, after = (
        {f"test {n}": test["status"] for n, test in enumerate(details.get("tests", ()), 1)}
        | {"loading the program": (details.get("error") or {}).get("status")}
        for details in (was["details"], now["details"])
    )
    for subject in dict.fromkeys([*before, *after]):
        if before.get(subject) != after.get(subject):
            yield subject, before.get(subject), after.get(subject)


def _difference(
    place: StoredGroup, sample: int | None, subject: str, was: Any, now: Any
) -> Difference:
    number = None if sample is None else sample + 1
    return Difference(**place.position(), sample=number, what=subject, was=was, now=now)


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}..."
