"""A team as a multi-agent environment of verifiers, with a seat for each agent, whoever they are."""

from __future__ import annotations

import asyncio
from typing import Any

import verifiers.v1 as vf
from pydantic import ConfigDict, SerializeAsAny, model_validator
from verifiers.v1.runtimes import SubprocessConfig

from llm_decpomdp.branching import branch
from llm_decpomdp.integrations.games import task_ids
from llm_decpomdp.integrations.verifiers.tasks import TeamTask, TeamTasksetConfig


class TeamConfig(vf.EnvConfig):  # type: ignore[misc]  # verifiers has no types for mypy
    """Has a seat by the name of each agent: `--env.main-0.model` is the model of `main_0`.

    verifiers' seats are fields of a class, and so the same for all teams. Here they are extra values, made for the
    agents of the environment that the taskset names.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, vf.AgentConfig]

    taskset: SerializeAsAny[TeamTasksetConfig] = TeamTasksetConfig()

    @model_validator(mode="after")
    def _make_seats(self) -> TeamConfig:
        agents = self.taskset.team().possible_agents
        seats = self.__pydantic_extra__ or {}
        for name in seats:
            if name not in agents:
                raise ValueError(
                    f"{name!r} is neither an option nor an agent of {self.taskset.env_id}: its agents are {agents}"
                )
        self.__pydantic_extra__ = {
            agent: _local(seats.get(agent, vf.AgentConfig())) for agent in agents
        }
        return self


class TeamEnv(vf.Env[TeamConfig]):  # type: ignore[misc]  # as above
    """Plays an episode of a task, with a run of its own for each agent in each turn.

    A prompt holds all that an agent knows, so its model is told nothing else. Each run has the reward of its turn
    as `team_reward`, the numbers of the infos as metrics, and the sum over the episode as `team_return`.
    """

    async def start(self) -> None:
        """Load the tasks, which the branches of all episodes share."""
        task_ids(self.config.taskset.team())

    async def run(self, task: TeamTask, agents: Any) -> None:
        """Play the task.

        Raises:
            RuntimeError: If a model gives no answer: that is no fault of the team, and is not scored.
        """
        config = self.config.taskset
        env = branch(config.team())
        prompts, _ = env.reset(seed=config.seed, options={"task_id": task.data.id})
        runs: list[Any] = []
        total = 0.0
        while env.agents:
            asked = [_ask(getattr(agents, agent), prompts[agent]) for agent in env.agents]
            traces = dict(zip(list(env.agents), await asyncio.gather(*asked), strict=True))
            actions = {agent: _answer(agent, trace) for agent, trace in traces.items()}
            prompts, rewards, _, _, infos = await asyncio.to_thread(env.step, actions)
            for agent, trace in traces.items():
                trace.record_reward("team_reward", rewards[agent])
                trace.record_metrics(infos[agent])
            runs += traces.values()
            total += next(iter(rewards.values()))
        for trace in runs:
            trace.record_metric("team_return", total)


def _local(seat: vf.AgentConfig) -> vf.AgentConfig:
    """Return a seat whose harness runs on this machine, unless another place was asked for."""
    if "runtime" in seat.model_fields_set:
        return seat
    return seat.model_copy(update={"runtime": SubprocessConfig()})


async def _ask(agent: Any, prompt: str) -> Any:
    return await agent.run(vf.Task(vf.TaskData(prompt=prompt)))


def _answer(agent: str, trace: Any) -> str:
    """Return the text of a model, to the letter; none is an empty one."""
    if not trace.ok:
        raise RuntimeError(f"the model of {agent!r} gave no answer: {trace.last_error}")
    return trace.assistant_messages[-1].content or ""
