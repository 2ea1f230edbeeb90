"""What an environment is composed of, beside its tasks: roles, a reward and a mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from llm_decpomdp.episode import Turn, Verdict

Info = dict[str, float]
"""The numbers that accompany an observation."""


class Role(Protocol):
    """Who acts: an agent and what it is asked first."""

    @property
    def agent(self) -> str:
        """The agent's id, such as `main_0`."""
        ...

    def first_prompt(self, task: Any) -> str:
        """The agent's observation at the start of an episode."""
        ...

    def reference(self, task: Any) -> str | None:
        """A correct completion for this role in its team, where the data has one."""
        ...


class Reward(Protocol):
    """Judges joint completions."""

    @property
    def components(self) -> Sequence[str]:
        """The names of the components of every verdict, in order."""
        ...

    def __call__(self, task: Any, completions: Mapping[str, str]) -> Verdict:
        """Judge one joint completion. Any text is legal; failures of our own raise."""
        ...


class Mode(Protocol):
    """The transition between turns: what each agent sees next."""

    @property
    def info_keys(self) -> Sequence[str]:
        """Names of numbers that the mode reports beside the prompts."""
        ...

    def __call__(self, task: Any, turn: Turn) -> tuple[dict[str, str], Info]:
        """The next prompt of each agent, and a value for each of `info_keys`."""
        ...

    def secrets(self, task: Any) -> Sequence[str]:
        """Texts that no prompt of this task may contain, such as hidden tests."""
        ...
