"""verifiers 0.4: any team as its taskset, multi-agent environment and harness.

verifiers names plug-ins by modules without dots, so users name `llm_decpomdp_verifiers`, which exports these
classes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import verifiers.v1 as vf
from pydantic import ConfigDict, Field, SerializeAsAny, model_validator
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.runtimes import SubprocessConfig

from llm_decpomdp.branching import acting_agents, branch
from llm_decpomdp.integrations.games import shared_env, task_ids


class TeamTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]  # verifiers has no types for mypy
    """Names an environment: `--env.taskset.env-id` and its siblings."""

    env_id: str = "coophumaneval-v0"
    """A registered id, or `module:id`."""
    env_options: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment, such as `num_turns`."""
    seed: int = 0
    """Seed of every episode, for random choices other than the task."""

    def team(self) -> Any:
        """Return the environment, shared by equal options in a process; only branches of it are played.

        Raises:
            ValueError: If there is no such environment or option.
        """
        try:
            return shared_env(self.env_id, self.env_options)
        except KeyError as error:  # pydantic and the command line would show a traceback
            raise ValueError(error.args[0]) from error


class TeamData(vf.TaskData):  # type: ignore[misc]  # as above
    """A task by its `id`, with its environment."""

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


class TeamConfig(vf.EnvConfig):  # type: ignore[misc]  # as above
    """Has a seat by the name of each agent: `--env.main-0.model` is the model of `main_0`.

    The seats of verifiers are fields of a class, so they are the same for all teams. Here they are extra values,
    made for the agents of the taskset's environment.
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
    """Plays an episode of a task, with a separate run for each agent in each turn.

    The prompt is all that a model sees, since it holds all that its agent knows. Each run has the reward of its
    turn as `team_reward`, the numbers of the infos as metrics, and the sum over the episode as `team_return`.
    """

    async def start(self) -> None:
        """Load the tasks, which the branches of all episodes share."""
        task_ids(self.config.taskset.team())

    async def run(self, task: TeamTask, agents: Any) -> None:
        """Play the task.

        Raises:
            RuntimeError: If a model gives no answer. Such an episode is not scored: the team is not at fault.
        """
        config = self.config.taskset
        env = branch(config.team())
        prompts, _ = env.reset(seed=config.seed, options={"task_id": task.data.id})
        runs: list[Any] = []
        total = 0.0
        while env.agents:
            playing = list(acting_agents(env))
            requests = [
                getattr(agents, agent).run(vf.Task(vf.TaskData(prompt=prompts[agent])))
                for agent in playing
            ]
            traces = dict(zip(playing, await asyncio.gather(*requests), strict=True))
            actions = {agent: _answer(agent, trace) for agent, trace in traces.items()}
            # In a thread: a step may wait for the sandbox, and other episodes go on.
            prompts, rewards, _, _, infos = await asyncio.to_thread(env.step, actions)
            for agent, trace in traces.items():
                trace.record_reward("team_reward", rewards[agent])
                trace.record_metrics(infos[agent])
            runs += traces.values()
            # All agents have the same reward.
            total += next(iter(rewards.values()))
        for trace in runs:
            trace.record_metric("team_return", total)


def _local(seat: vf.AgentConfig) -> vf.AgentConfig:
    """Let the harness of a seat run on this machine, unless its configuration names a runtime."""
    if "runtime" in seat.model_fields_set:
        return seat
    return seat.model_copy(update={"runtime": SubprocessConfig()})


def _answer(agent: str, trace: Any) -> str:
    if not trace.ok:
        raise RuntimeError(f"the model of {agent!r} gave no answer: {trace.last_error}")
    return trace.assistant_messages[-1].content or ""


class ChatConfig(vf.HarnessConfig):  # type: ignore[misc]  # as above
    """The options of every harness."""


class ChatHarness(vf.Harness[ChatConfig]):  # type: ignore[misc]  # as above
    """A harness without a process: it sends an agent's prompt to its model once, without tools."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Call the model of `ctx` through `endpoint`, where verifiers records the messages."""
        system, prompt = self.resolve_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        async with openai.AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
