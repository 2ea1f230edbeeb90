"""A trainer of TRL for each agent: all sample, the team is rewarded, and all update."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pettingzoo import ParallelEnv

from llm_decpomdp.branching import require_simultaneous
from llm_decpomdp.integrations.games import play_once
from llm_decpomdp.integrations.trl.rewards import RewardFunc, completion_text, dataset

if TYPE_CHECKING:
    from datasets import Dataset

Trainer = TypeVar("Trainer", bound=Any)


def lockstep(
    env: ParallelEnv[str, Any, Any],
    trainers: Mapping[str, Callable[[RewardFunc, Dataset], Trainer]],
    *,
    chat: bool = False,
) -> dict[str, Trainer]:
    """Train all agents simultaneously, each with separate weights and a separate `GRPOTrainer`: MAGRPO.

    The trainers run in threads of this process and take turns: one runs from the rewards of a batch through its
    update to the completions of the next batch, then the next trainer does. So only one computes at any time, and
    equal seeds give equal weights. All settings that decide the order of rows must be equal: batch, generations,
    steps, and the seed or `shuffle_dataset=False`.

    Args:
        env: An environment of one turn.
        trainers: For each agent a function that builds its trainer from a reward function and a data set.
        chat: As in `dataset`.

    Returns:
        The trainers, after training.

    Raises:
        KeyError: If an agent has no trainer.
        ValueError: If the trainers ask for rewards of different rows, or one of them ends before the others.
        Exception: The exception of a trainer, which stops the others.
    """
    require_simultaneous(env, "lockstep")
    agents = list(env.possible_agents)
    if set(trainers) != set(agents):
        raise KeyError(f"lockstep needs a trainer for each of {agents}, got {sorted(trainers)}")
    table = Table(env)
    instances = {a: trainers[a](table.reward(a), dataset(env, [a], chat=chat)) for a in agents}
    threads = [
        # Daemons, so that an interrupted process can end.
        threading.Thread(target=table.run, args=(agent, instances[agent].train), daemon=True)
        for agent in agents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if table.failures:
        raise table.failures[0]
    return instances


class Stopped(Exception):
    """Ends a trainer after the failure of another."""


class Table:
    """Lets one trainer run while the others wait for their turn."""

    def __init__(self, env: ParallelEnv[str, Any, Any]) -> None:
        self.env = env
        self.agents = list(env.possible_agents)
        self.failures: list[BaseException] = []
        self._turns = {agent: threading.Semaphore(0) for agent in self.agents}
        self._turns[self.agents[0]].release()
        self._texts: dict[str, list[str]] = {}
        self._tasks: dict[str, list[str]] = {}
        self._rewards: list[dict[str, float]] = []
        self._rounds = 0
        self._ended: list[str] = []

    def run(self, agent: str, train: Callable[[], Any]) -> None:
        """Train one agent from its first turn on; a failure is recorded and stops the others."""
        try:
            self._wait(agent)
            train()
        except Stopped:
            pass
        except BaseException as error:  # in a thread: `lockstep` raises it in the main one
            self.failures.append(error)
        # Also after a failure: the others must wake up to stop.
        self._ended.append(agent)
        self._forward(agent)

    def reward(self, agent: str) -> RewardFunc:
        """Return the reward function of an agent's trainer, which waits for the completions of the others."""

        def team(
            prompts: Sequence[Any], completions: Sequence[Any], task_id: Sequence[str], **_: Any
        ) -> list[float]:
            self._check(agent, list(task_id))
            rounds = self._rounds
            self._texts[agent] = [completion_text(completion) for completion in completions]
            self._tasks[agent] = list(task_id)
            if agent == self.agents[-1]:
                plays = [
                    (task, {a: self._texts[a][row] for a in self.agents})
                    for row, task in enumerate(task_id)
                ]
                self._rewards = play_once(self.env, plays)
                self._rounds += 1
            self._forward(agent)
            self._wait(agent)
            if self._rounds == rounds:  # woken by a trainer that ended instead of sampling
                self._check(agent, list(task_id))
            return [float(by_agent[agent]) for by_agent in self._rewards]

        return team

    def _check(self, agent: str, tasks: list[str]) -> None:
        """Raise a `ValueError` if a trainer has ended, or asks for other rows than the first one."""
        if self._ended:
            raise ValueError(
                f"the trainer of {self._ended[0]!r} has ended, and that of {agent!r} goes on: give all the same "
                "max_steps, num_train_epochs and batches"
            )
        first = self.agents[0]
        if agent != first and tasks != self._tasks[first]:
            raise ValueError(
                f"the trainers of {first!r} and {agent!r} ask for other rows at the same time: give both the same "
                "batches, num_generations and seed, or shuffle_dataset=False"
            )

    def _forward(self, agent: str) -> None:
        following = self.agents[(self.agents.index(agent) + 1) % len(self.agents)]
        self._turns[following].release()

    def _wait(self, agent: str) -> None:
        self._turns[agent].acquire()
        if self.failures:
            raise Stopped
