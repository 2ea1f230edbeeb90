"""The tasks of an environment as a taskset of verifiers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from llm_decpomdp.integrations.games import shared_env, task_ids


class TeamTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]  # verifiers has no types for mypy
    """Names an environment: `--env.taskset.env-id` and its siblings."""

    env_id: str = "coophumaneval-v0"
    """A registered id, or `module:id`."""
    env_options: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment, such as `num_turns`."""
    seed: int = 0
    """Seed of every episode, for what an environment draws beside the task."""

    def team(self) -> Any:
        """Return the environment, one for all of equal options in a process; only branches of it are played.

        Raises:
            ValueError: If there is no such environment or option.
        """
        try:
            return shared_env(self.env_id, self.env_options)
        except KeyError as error:  # which pydantic and the command line would show as a traceback
            raise ValueError(error.args[0]) from error


class TeamData(vf.TaskData):  # type: ignore[misc]  # as above
    """A task by its `id`, with the environment that it is of."""

    env_id: str
    env_options: dict[str, Any]


class TeamTask(vf.Task[TeamData]):  # type: ignore[misc]  # as above
    """A task that a team plays; the environment rewards it."""


class TeamTaskset(vf.Taskset[TeamTask, TeamTasksetConfig]):  # type: ignore[misc]  # as above
    """The tasks of an environment, in its order."""

    def load(self) -> Iterator[TeamTask]:
        """Yield the tasks.

        Raises:
            TypeError: If the environment has none.
        """
        config = self.config
        origin = {"env_id": config.env_id, "env_options": config.env_options}
        for task_id in task_ids(config.team()):
            yield TeamTask(TeamData(id=task_id, name=task_id, **origin), config.task)
