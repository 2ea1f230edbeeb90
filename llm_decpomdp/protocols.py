"""Protocols of the parts of an environment: roles, rewards and modes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from llm_decpomdp.interfaces import Info, Turn, Verdict


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
