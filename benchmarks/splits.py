"""Two splits of the same data, for a trainer that trains on one and evaluates on the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_decpomdp.env import DecPOMDPEnv


def same_source(env: DecPOMDPEnv) -> str:
    """The `source` that loads another split from where the data of this environment was found."""
    found = env.tasks.source
    return "bundled" if found == "package" else found


class TwoSplits:
    """Plays an episode in the environment that has its task.

    Args:
        train: The environment on the training split.
        held_out: The same on the evaluation split; a task in both is played here.
    """

    def __init__(self, train: DecPOMDPEnv, held_out: DecPOMDPEnv) -> None:
        self.possible_agents = list(train.possible_agents)
        self.num_turns = train.num_turns
        self.agents: list[str] = []
        self._envs = {t.task_id: env for env in (train, held_out) for t in env.tasks.tasks}
        self._playing = train

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Start the task that `options["task_id"]` names, in its environment."""
        if options is None or "task_id" not in options:
            raise ValueError("two splits need options={'task_id': ...} to choose between them")
        self._playing = self._envs[options["task_id"]]
        started = self._playing.reset(seed=seed, options=options)
        self.agents = list(self._playing.agents)
        return started

    def step(
        self, actions: dict[str, str]
    ) -> tuple[
        Mapping[str, str],
        Mapping[str, float],
        Mapping[str, bool],
        Mapping[str, bool],
        Mapping[str, Any],
    ]:
        """Step the environment that plays."""
        outcome = self._playing.step(actions)
        self.agents = list(self._playing.agents)
        return outcome

    def fork(self) -> DecPOMDPEnv:
        """An independent copy of the environment that plays."""
        return self._playing.fork()
