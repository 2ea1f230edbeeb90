"""Environments of games with generated tasks.

The rules of one object become the roles, the reward and the mode. The tasks are deterministic and without
repetitions, and the splits share nothing that matters.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import Dataset, Remark, load, parse_split
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.worlds.strategies import Strategy, exact_numbers, play
from llm_decpomdp.interfaces import Component, Info, Task, TaskLoader, TaskSet, Turn, Verdict
from llm_decpomdp.options import Options, option
from llm_decpomdp.picture import draw_text, find_picture
from llm_decpomdp.seeding import stream

Turns = tuple[Turn, ...]
Completions = Mapping[str, str]
Prompts = dict[str, str]

FULL = 1.0 - 1e-9
"""Least score that counts as full marks, so that rounding costs nobody the game."""


class Game:
    """The rules of a family, as pure functions of the task and the turns so far: the reward of its environment.

    By default every agent acts in every turn. With `turn_based` the agents that act are those that `prompts` has a
    text for.
    """

    agents: Sequence[str]
    """The agents' ids, in order."""
    turn_based: ClassVar[bool] = False
    readers: Mapping[str, Collection[str]] = {}
    """For each agent the others whose prompts may show its completions."""
    components: Mapping[str, Component] = {"score": Component("Increase of the score.")}
    own_components: Sequence[str] = ()
    maximum: float = 1.0
    info_keys: Sequence[str] = ("score", "invalid")
    """Numbers of `Verdict.details` that the infos repeat."""
    strategies: Mapping[str, Strategy] = {}
    """Scripted teams whose scores are known numbers or bounds of the family; of the class or a property, since
    functions of other functions cannot be copied with an environment."""
    history: ClassVar[bool] = True
    cumulative: ClassVar[bool] = True
    """The points of an episode sum to its score."""

    def members(self, task: Any, turns: Turns) -> Sequence[str]:
        """Return the agents that are in the episode after these turns."""
        return self.agents

    def prompts(self, task: Any, turns: Turns) -> Prompts:
        """Return the prompts of the agents that act after these turns."""
        raise NotImplementedError

    def judge(self, task: Any, completions: Completions, turns: Turns) -> Verdict:
        """Judge a joint completion after these turns."""
        raise NotImplementedError

    def reference(self, task: Any, agent: str) -> str | None:
        """Return a correct first completion of an agent, where there is one."""
        return None

    def next_reference(self, task: Any, agent: str, turns: Turns) -> str | None:
        """Return a correct completion of an agent after these turns; by default its first one."""
        return self.reference(task, agent)

    def secrets(self, task: Any) -> Sequence[str]:
        """Return texts that no prompt may contain."""
        return ()

    def __call__(self, task: Any, completions: Completions, turns: Turns = ()) -> Verdict:
        """Judge a joint completion."""
        return self.judge(task, completions, turns)

    def known_scores(self, env: DecPOMDPEnv) -> dict[str, float]:
        """Return the exact known scores, means over the tasks of an environment."""
        return exact_numbers(env)

    def notes(self, details: Mapping[str, Any]) -> list[str]:
        """Return the lines of the picture, if there is one."""
        picture = find_picture(details)
        return draw_text(picture).splitlines() if picture else []

    def audit(self, env: DecPOMDPEnv) -> Iterator[Remark]:
        """Yield a fault for each task on which the optimum earns other points than its exact value, or than 1."""
        if "optimum" not in self.strategies:
            return
        optimum = self.strategies["optimum"]
        for task in env.tasks.tasks:
            score = play(env, task.task_id, optimum)
            value = optimum.exact(task) if optimum.exact else self.maximum
            if abs(score - value) > 1e-6:
                text = f"the optimum earns {score:.4f}, not {value:.4f}"
                yield Remark("reference", task.task_id, "optimum", text, fault=True)


def score_verdict(
    score: float,
    turns: Turns,
    details: Mapping[str, Any] | None = None,
    *,
    start: float = 0.0,
    solved: bool | None = None,
    own: Mapping[str, Mapping[str, float]] | None = None,
) -> Verdict:
    """Return the verdict whose points are the increase of a score, so that they sum to the final score.

    Args:
        score: Score after the turn, at most 1.
        turns: The turns before, each with its score in the details.
        details: State of the world, for the next turn: JSON-able, with lists and keys of text. `invalid` is the
            number of invalid commands, and `picture` a picture of `llm_decpomdp.picture`.
        start: Score before the first turn, which nobody is paid for.
        solved: Whether the task is solved; by default at full marks.
        own: Points of single agents.
    """
    before = turns[-1].verdict.details["score"] if turns else start
    state = {"score": score, "invalid": 0, **(details or {})}
    is_over = score >= FULL if solved is None else solved
    return Verdict({"score": score - before}, is_over, state, own=own or {})


@dataclass(frozen=True)
class GameRole:
    """An agent of a game."""

    game: Game
    agent: str
    history: ClassVar[bool] = True

    def reference(self, task: Any, turns: Turns = ()) -> str | None:
        """Return a correct completion after these turns, where there is one."""
        return self.game.next_reference(task, self.agent, turns)


@dataclass(frozen=True)
class GameMode:
    """The mode of a game whose agents all act in every turn."""

    game: Game
    info_keys: Sequence[str] = ()
    history: ClassVar[bool] = True

    @property
    def readers(self) -> Mapping[str, Collection[str]]:
        """For each agent the others that read its completions."""
        return self.game.readers

    def first(self, task: Any) -> Prompts:
        """Return the first prompts."""
        return self.game.prompts(task, ())

    def __call__(self, task: Any, turn: Turn, turns: Turns = ()) -> tuple[Prompts, Info]:
        """Return the next prompts."""
        return self.game.prompts(task, turns), Info()

    def secrets(self, task: Any) -> Sequence[str]:
        """Return the texts that no prompt may contain."""
        return self.game.secrets(task)


@dataclass(frozen=True)
class TurnGameMode(GameMode):
    """The mode of a game whose agents wait for others, leave early or join late."""

    def present(self, task: Any, turns: Turns) -> Sequence[str]:
        """Return the agents that are in the episode."""
        return self.game.members(task, turns)

    def acting(self, task: Any, turns: Turns) -> Sequence[str]:
        """Return the agents that act next."""
        return list(self.game.prompts(task, turns))


# Generated tasks: deterministic, without repetitions, and with splits that share nothing that matters


SPLITS = ("train", "test")

SIZE = 500
"""Tasks of a data set, 400 for training and 100 for tests."""

TEST_EVERY = 5
"""One of so many tasks, and of so many keys, belongs to the split `test`."""

MAX_DRAWS = 2000
"""Consecutive draws without a new task after which a split is complete."""


class TaskOptions(Options):
    """Options of every family of generated tasks.

    Raises:
        ValueError: If a value is of another type or out of its range.
    """

    task_seed: int = option(0, ge=0)
    """Seed of the tasks."""
    split: str = "train"
    """`train`, `test` or `all`, optionally sliced, such as `train[:50%]`."""
    source: str = option("bundled", choices=("bundled", "auto"))
    """`bundled` or `auto`: these tasks are generated."""
    discount: float = 1.0
    """Discount factor of the model, in [0, 1]."""
    render_mode: str | None = None
    """`None`, `ansi` or `human`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_split(self.split, (*SPLITS, "all"))


class WorldOptions(TaskOptions):
    """Options of families whose episodes have a number of turns."""

    num_turns: int = option(2, ge=1)
    """Turns of an episode, at most."""
    stop_when_solved: bool = True
    """End an episode at full marks, before its last turn."""


Draw = Callable[..., Row | None]
"""From random numbers and the kind of the tasks to a row, or `None` for a draw that is no task.

The row's `key` is what tasks of training and tests must not share, such as a word or a map. Its `content`, by
default the whole row, is what no two tasks may share.
"""


def generated_tasks(
    name: str,
    options: TaskOptions,
    draw: Draw,
    to_task: Callable[[int, Row], Task],
    *kind: Hashable,
) -> TaskSet:
    """Return the tasks of a split.

    Args:
        name: Name of the data set.
        options: Split and seed.
        draw: Draws a row.
        to_task: Makes a task of a row and its index.
        kind: What `draw` takes besides random numbers: the options that decide the tasks.
    """
    dataset = Dataset(
        name=name,
        hub="",
        filename="",
        bundled=partial(generated_rows, name, options.task_seed, draw, *kind),
        to_task=lambda _, row: to_task(row["index"], row),
        stand_in=False,
        splits=SPLITS,
        find_split=lambda row: str(row["split"]),
    )
    return load(dataset, options.split, "bundled")


@lru_cache(maxsize=16)
def generated_rows(name: str, task_seed: int, draw: Draw, *kind: Hashable) -> list[Row]:
    """Draw the rows of a data set; row `index` of a seed is always the same.

    The key of a row alone decides its split, so that no key is in both.
    """
    rows: list[Row] = []
    contents: set[str] = set()
    complete: set[str] = set()
    for index in range(SIZE):
        split = "test" if index % TEST_EVERY == TEST_EVERY - 1 else "train"
        rng = stream(task_seed, name, *map(str, kind), index)
        # The index also counts without a row, so that later rows keep their numbers.
        for _ in range(0 if split in complete else MAX_DRAWS):
            row = draw(rng, *kind)
            if row is None or split_of(row["key"]) != split:
                continue
            content = str(row.get("content", row))
            if content in contents:
                continue
            contents.add(content)
            rows.append({**row, "index": index, "split": split})
            break
        else:
            complete.add(split)  # no draw was new, so the split has all there is
    return rows


def split_of(key: str) -> str:
    """Return the split of all tasks with a key."""
    # Not `hash`, which differs between processes.
    return "test" if zlib.crc32(key.encode()) % TEST_EVERY == 0 else "train"


def task_fields(name: str, index: int, prompt: str = "") -> dict[str, Any]:
    """Return the fields that every task has."""
    return {"task_id": f"{name}/{index}", "index": index, "prompt": prompt}


# Environments


def game_env(
    name: str,
    tasks: TaskSet | TaskLoader,
    game: Game,
    *,
    num_turns: int,
    stop_when_solved: bool = True,
    discount: float = 1.0,
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Return the environment of a game; arguments as of `DecPOMDPEnv`."""
    return DecPOMDPEnv(
        name,
        tasks,
        [GameRole(game, agent) for agent in game.agents],
        game,
        (TurnGameMode if game.turn_based else GameMode)(game),
        num_turns=num_turns,
        stop_when_solved=stop_when_solved,
        discount=discount,
        render_mode=render_mode,
    )


def world_env(
    env_id: str,
    game: Game,
    options: WorldOptions,
    draw: Draw,
    to_task: Callable[[int, Row], Task],
    *kind: Hashable,
) -> DecPOMDPEnv:
    """Return the environment of a game with generated tasks.

    The name of the data set is that of the environment without its version. `draw`, `to_task` and `kind` are as
    of `generated_tasks`.
    """
    name, _ = env_id.rsplit("-", 1)
    return game_env(
        env_id.replace("-", "_"),
        partial(generated_tasks, name, options, draw, to_task, *kind),
        game,
        num_turns=options.num_turns,
        stop_when_solved=options.stop_when_solved,
        discount=options.discount,
        render_mode=options.render_mode,
    )
