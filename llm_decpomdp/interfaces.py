"""The parts of an environment: its data, and the protocols and calls of its roles, reward and mode.

The data are verdicts, episodes, tasks and sets of tasks. The calls check what a reward and a mode return, and
which agents a mode with `present` or `acting` names.

The records of an episode are immutable and turn into JSON and back, so that an environment's state is a value: it
can be copied, stored, sent to another process and compared.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import reprlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from llm_decpomdp.validation import unknown


@dataclass(frozen=True)
class Verdict:
    """The judgement of one joint completion."""

    components: Mapping[str, float]
    """Points by name; their sum is the team's reward."""
    solved: bool
    """True if the team earned full marks."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Findings of the family's own, JSON-able, such as the outcome of each test; kept with the episode."""
    analysis: Any = None
    """Findings for the mode, such as the code in each completion, so that nothing is read twice; not kept."""
    own: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Points of single agents by agent and component, such as a verifier's for a correct judgement. They are no
    part of the team's reward: infos and records show them, and learners add them with `algorithm.own_weight`."""
    over: bool = False
    """True if the episode ends here without full marks, as a lost game does."""

    @property
    def reward(self) -> float:
        """The team's reward: the sum of the components."""
        # `fsum` rounds once, so that the reward does not depend on the order of the components.
        return float(math.fsum(self.components.values()))


@dataclass(frozen=True)
class Turn:
    """One joint decision: every agent's prompt and completion, and their verdict."""

    prompts: Mapping[str, str]
    completions: Mapping[str, str]
    verdict: Verdict


@dataclass(frozen=True)
class Episode:
    """The state of the Dec-POMDP: the task, all that has happened, and what each agent sees now."""

    task_id: str
    turns: tuple[Turn, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The current observation of each agent; empty strings once the episode is over."""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dictionary from which `from_json` rebuilds an equal episode."""
        data = asdict(self)
        for turn in data["turns"]:
            # It is `None` here, as `step` drops it, and stored episodes have no such key.
            del turn["verdict"]["analysis"]
            for key in ("own", "over"):  # as in episodes that were stored before there were any
                if not turn["verdict"][key]:
                    del turn["verdict"][key]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Episode:
        """Rebuild an episode from `to_json`'s dictionary."""
        turns = tuple(
            Turn(turn["prompts"], turn["completions"], Verdict(**turn["verdict"]))
            for turn in copy.deepcopy(data["turns"])
        )
        return cls(data["task_id"], turns, dict(data["prompts"]))


@dataclass(frozen=True)
class Task:
    """One problem; families add their own fields in subclasses."""

    task_id: str
    index: int
    """Row in the whole data set, before any split was sliced."""
    prompt: str
    references: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Correct completions of the data by agent id, each written for the whole team of these agents."""
    known_issue: str | None = field(default=None, kw_only=True)
    """Known error of this row of the data, if any."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Properties of the row that may make its rewards wrong; reading a user's file logs a warning of each."""
        return ()


MODES = ("level_feedback", "level_passed", "passed", "plain", "expert_edits", "code_feedback")
"""Names of the modes in this library, which mean the same in every environment that has them."""

Info = dict[str, float]
"""The numbers that accompany an observation."""


# Protocols


class Role(Protocol):
    """A member of the team.

    With an attribute `history` that is true, `reference` also takes the turns so far: `reference(task, turns)`.
    """

    @property
    def agent(self) -> str:
        """The agent's id, such as `main_0`."""
        ...

    def reference(self, task: Any) -> str | None:
        """Return a correct completion for this role in its team, where the data has one."""
        ...


@dataclass(frozen=True)
class Component:
    """The description of a component of a reward, for those who read a report."""

    text: str = ""
    """Condition and points, in a sentence."""
    form: bool = False
    """True if the form of the answers alone earns it, however wrong they are."""


class Reward(Protocol):
    """Judges joint completions.

    Attributes that a reward may have: `maximum`, the most that a turn can earn; `info_keys`, the names of the
    numbers in `Verdict.details` that the infos repeat; `notes`, a function of `Verdict.details` that returns lines
    for the transcript; `own_components`, the names of the points in `Verdict.own`; `history`, true if the reward
    also takes the earlier turns of the episode: `reward(task, completions, turns=turns)`; `strategies`, the
    scripted teams that `check rewards` plays; `known_scores`, a function of the environment that returns exact
    mean scores by name, of which evaluations use `optimum` and `silent`; `cumulative`, true if the rewards of an
    episode sum to its score, which reports then show. The picture of a turn is `Verdict.details["picture"]`
    (`llm_decpomdp.picture`).
    """

    @property
    def components(self) -> Collection[str]:
        """The names of the components of every verdict, in order, or a mapping from them to `Component`."""
        ...

    def __call__(self, task: Any, completions: Mapping[str, str]) -> Verdict:
        """Judge one joint completion. Any text is legal; failures of our own raise."""
        ...


class Mode(Protocol):
    """Writes every observation.

    A mode may have further attributes, by which a team takes turns, or changes during an episode. `turns` are the
    turns so far.

    - `acting(task, turns)`: the agents that act next; by default all that are present. The mode then writes the
      prompts of these agents alone.
    - `present(task, turns)`: the agents that are in the episode; by default all. An agent that left cannot return.
      Its earlier completions still earn the team's later rewards.
    - `history`: true if the mode also takes all turns, the newest last: `mode(task, turn, turns=turns)`.
    - `readers`: for each agent the others whose prompts may show its completions. `check_env` reports every text
      of a team-mate in a prompt that is not declared here.
    - `sequential()`: returns the mode whose prompts do not say that all agents act at once, for a turn order
      (`llm_decpomdp.wrappers.turn_order`).
    - `interchangeable`: groups of words. If all agents exchange words of a group in prompts and completions, every
      reward stays the same. Other-play renames them (`llm_decpomdp.wrappers.other_play`).
    """

    @property
    def info_keys(self) -> Sequence[str]:
        """Names of numbers that the mode reports beside the prompts."""
        ...

    def first(self, task: Any) -> dict[str, str]:
        """Return the first prompt of each agent."""
        ...

    def __call__(self, task: Any, turn: Turn) -> tuple[dict[str, str], Info]:
        """Return the next prompt of each agent, and a value for each of `info_keys`."""
        ...

    def secrets(self, task: Any) -> Sequence[str]:
        """Return texts that no prompt of this task may contain, such as hidden tests."""
        ...


# Calls of reward and mode, with checks of what they return


class PartError(TypeError):
    """A part returned something of another kind than it must: its author's mistake, whatever the agents wrote."""


def evaluate_reward(
    reward: Any, task: Any, completions: Mapping[str, str], turns: Sequence[Turn] = ()
) -> Verdict:
    """Return the verdict of a reward.

    An error that the reward raises gets a note with its class and the task.

    Args:
        reward: A `Reward`.
        task: The problem.
        completions: The completion of each agent that acted.
        turns: The turns before, for rewards with `history`.

    Raises:
        PartError: If it returns something else, other components than it declares, or points that are no finite
            numbers; names its class and the task.
    """
    name = type(reward).__name__
    history = {"turns": tuple(turns)} if getattr(reward, "history", False) else {}
    try:
        verdict = reward(task, completions, **history)
    except Exception as error:
        # A note, not another exception: its class and traceback stay those of the author's mistake.
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(f"raised by the reward {name} on the task {task.task_id!r}")
        raise
    if not isinstance(verdict, Verdict):
        raise PartError(
            f"the reward {name} must return a Verdict, got {reprlib.repr(verdict)} ({type(verdict).__name__}) on "
            f"the task {task.task_id!r}: return Verdict({{name: points}}, solved), with a name for each of its "
            "components"
        )
    declared, points = reward.components, verdict.components
    # Undeclared components would be missing from the infos, and the reward would not be their sum.
    if len(points) != len(declared) or any(component not in points for component in declared):
        raise PartError(
            f"the reward {name} declares the components {list(declared)}, and its verdict on the task "
            f"{task.task_id!r} has {list(points)}: give points to each declared component, 0.0 where it earns none"
        )
    for component, value in points.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise PartError(
                f"the reward {name} gives {value!r} for the component {component!r} on the task {task.task_id!r}: "
                "points are finite numbers"
            )
    if verdict.own:
        _check_own(reward, task, verdict.own)
    return verdict


def _check_own(reward: Any, task: Any, own: Mapping[str, Mapping[str, float]]) -> None:
    """Raise a `PartError` unless the own points of agents are finite numbers of declared components."""
    declared = list(getattr(reward, "own_components", ()))
    for agent, points in own.items():
        for component, value in points.items():
            number = isinstance(value, int | float) and math.isfinite(value)
            if component not in declared or not number:
                raise PartError(
                    f"the reward {type(reward).__name__} gives {agent!r} {value!r} for its own component "
                    f"{component!r} on the task {task.task_id!r}: give finite numbers for its "
                    f"own_components {declared}"
                )


def check_prompts(
    mode: Any, prompts: object, agents: Sequence[str], task: Any
) -> Mapping[str, str]:
    """Return the prompts; raise a `PartError` unless a mode wrote a text for each agent, and for no other."""
    if isinstance(prompts, Mapping) and len(prompts) == len(agents):
        if all(isinstance(prompts.get(agent), str) for agent in agents):
            return prompts
    prompt_keys = list(prompts) if isinstance(prompts, Mapping) else prompts
    raise PartError(
        f"the mode {type(mode).__name__} must return a prompt (str) for each of the agents {list(agents)}, got "
        f"{reprlib.repr(prompt_keys)} on the task {task.task_id!r}"
    )


def next_prompts(
    mode: Any, task: Any, turn: Turn, turns: Sequence[Turn]
) -> tuple[dict[str, str], Info]:
    """Return the prompts after a turn, and the numbers of `info_keys`.

    Args:
        mode: A `Mode`.
        task: The problem.
        turn: The newest turn, with the analysis of its verdict.
        turns: All turns, for modes with `history`.
    """
    history = {"turns": tuple(turns)} if getattr(mode, "history", False) else {}
    prompts: dict[str, str]
    prompts, infos = mode(task, turn, **history)
    return prompts, infos


def present_agents(
    mode: Mode, task: Any, turns: Sequence[Turn], possible_agents: Sequence[str]
) -> list[str]:
    """Return the live agents before the next turn: those that the mode names in `present`, or else all.

    Raises:
        PartError: If the mode names an unknown agent, or nobody, or one that left before.
    """
    if not hasattr(mode, "present"):
        return list(possible_agents)
    present = _named(mode, "present", task, turns, possible_agents)
    if turns and set(present) - set(_named(mode, "present", task, turns[:-1], possible_agents)):
        # A set of all earlier turns, since an agent may join, but not join again.
        earlier = [set(mode.present(task, turns[:n])) for n in range(len(turns))]
        back = [
            a for a in present if a not in earlier[-1] and any(a in agents for agents in earlier)
        ]
        if back:
            raise PartError(
                f"the mode {type(mode).__name__} lets {back} return on the task {task.task_id!r}: an agent that "
                "left an episode is over; let it wait by `acting` instead"
            )
    return present


def agents_to_act(mode: Mode, task: Any, turns: Sequence[Turn], agents: Sequence[str]) -> list[str]:
    """Return the agents that act next: those that the mode names in `acting`, or else all live ones.

    Raises:
        PartError: If the mode names an agent that is not live, or nobody.
    """
    if not agents or not hasattr(mode, "acting"):
        return list(agents)
    return _named(mode, "acting", task, turns, agents)


def _named(
    mode: Any, method: str, task: Any, turns: Sequence[Turn], agents: Sequence[str]
) -> list[str]:
    """Return the agents that a method of the mode names, in the order of `agents`."""
    names = list(getattr(mode, method)(task, tuple(turns)))
    if not names or not set(names) <= set(agents):
        raise PartError(
            f"{method} of the mode {type(mode).__name__} must name one or more of the agents {list(agents)}, got "
            f"{names} on the task {task.task_id!r}"
        )
    return [agent for agent in agents if agent in names]


@dataclass(frozen=True)
class TaskSet:
    """An ordered, loaded set of tasks, with its origin."""

    tasks: tuple[Task, ...]
    name: str
    source: str
    """`hub`, `package`, `bundled` or the path of a file."""
    split: str
    revision: str = ""
    """The hub's commit; empty where they are not from the hub."""
    stand_in: bool = False
    """True where these are our own problems in place of the benchmark's."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Ids of the tasks that are left out, with the reasons."""

    def __post_init__(self) -> None:
        """Raise a `ValueError` for a set without tasks, or with two tasks of one id."""
        if not self.tasks:
            raise ValueError(
                f"the task set {self.name!r} ({self.source}, split {self.split!r}) is empty: give it at least one "
                "task"
            )
        if len(self.positions) < len(self.tasks):
            (task_id, count), *_ = Counter(task.task_id for task in self.tasks).most_common(1)
            raise ValueError(
                f"the task set {self.name!r} has {count} tasks with the id {task_id!r}: give each its own, since "
                "runs and evaluations find tasks by their ids"
            )

    @property
    def known_issues(self) -> dict[str, str]:
        """Ids of the tasks that are known to be wrong, with the reasons."""
        return {t.task_id: t.known_issue for t in self.tasks if t.known_issue is not None}

    def __len__(self) -> int:
        return len(self.tasks)

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskSet:
        """Return itself: nothing in it changes, and a copy of an environment should not copy the data."""
        return self

    # It writes to `__dict__` and not by `setattr`, so it also works in a frozen dataclass.
    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Task id to position."""
        return {task.task_id: position for position, task in enumerate(self.tasks)}

    def find(self, task_id: object) -> Task:
        """Return the task with this id.

        Raises:
            KeyError: If there is none; the text names the nearest id.
        """
        if not isinstance(task_id, str) or task_id not in self.positions:
            raise KeyError(unknown("task_id", task_id, self.positions))
        return self.tasks[self.positions[task_id]]

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits of a SHA-256 over the data of every task; our notes don't count."""
        # A new note about a known issue must not make the data of old runs look changed.
        rows = [asdict(replace(task, known_issue=None)) for task in self.tasks]
        text = json.dumps(rows, sort_keys=True)  # ASCII, whatever characters the data has
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """Return the JSON-able identity of the data, for metadata, manifests and reports."""
        return {
            "name": self.name,
            "source": self.source,
            "split": self.split,
            "revision": self.revision,
            "rows": len(self),
            "stand_in": self.stand_in,
            "known_issues": self.known_issues,
            "excluded": dict(self.excluded),
            "fingerprint": self.fingerprint,
        }


TaskLoader = Callable[[], TaskSet]
"""Loads the tasks when they are first needed, so that building an environment stays cheap."""
