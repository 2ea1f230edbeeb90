"""Inspect: a team as a task with a model role for each agent, to evaluate models behind APIs.

```bash
inspect eval llm_decpomdp/team -T env_id=coophumaneval-v0 --model-role aux_0=MODEL --model-role main_0=MODEL
```
"""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, get_model, model_roles
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import collect

from llm_decpomdp.branching import acting_agents, branch
from llm_decpomdp.integrations.games import shared_env, task_ids
from llm_decpomdp.validation import unknown

RETURN = "return"
"""Name of the score that is the sum of a team's rewards."""


@task  # type: ignore[untyped-decorator]  # inspect_ai is not installed where mypy runs
def team(env_id: str = "coophumaneval-v0", seed: int = 0, **env_options: Any) -> Task:
    """Make a task of an environment, with a sample for each of its tasks.

    Args:
        env_id: A registered id, or `module:id`.
        seed: Seed of every episode, for random choices other than the task.
        **env_options: Arguments of the environment.

    Raises:
        KeyError, ValueError: As `llm_decpomdp.make`.
        TypeError: If the environment has no tasks.
    """
    env = shared_env(env_id, env_options)
    samples = [Sample(id=task_id, input=task_id) for task_id in task_ids(env)]
    return Task(
        dataset=MemoryDataset(samples, name=env_id),
        solver=play(env_id, seed, env_options),
        scorer=team_reward(),
    )


@solver  # type: ignore[untyped-decorator]  # as above
def play(env_id: str, seed: int, env_options: dict[str, Any]) -> Solver:
    """Return the solver that plays an episode with the model of each agent's role.

    The model of the evaluation plays agents without a role. The prompt is all that a model sees, since it holds
    all that its agent knows. The messages of the sample have all prompts and answers with the agent's name.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        env = branch(shared_env(env_id, env_options))
        for name in model_roles():
            if name not in env.possible_agents:
                raise ValueError(unknown("model role", name, env.possible_agents))
        prompts, infos = env.reset(seed=seed, options={"task_id": state.sample_id})
        total = 0.0
        while env.agents:
            agents = list(acting_agents(env))
            requests = [get_model(role=agent).generate(prompts[agent]) for agent in agents]
            outputs = dict(zip(agents, await collect(*requests), strict=True))
            for agent, output in outputs.items():
                state.messages.append(ChatMessageUser(content=f"[{agent}]\n{prompts[agent]}"))
                state.messages.append(output.message)
            actions = {agent: output.completion for agent, output in outputs.items()}
            # In a thread: a step may wait for the sandbox, and other samples go on.
            prompts, rewards, _, _, infos = await anyio.to_thread.run_sync(env.step, actions)
            # All agents have the same reward.
            total += next(iter(rewards.values()))
            state.output = outputs[agents[-1]]
        state.store.set(RETURN, total)
        state.store.set("infos", next(iter(infos.values())))
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]  # as above
def team_reward() -> Scorer:
    """Return the scorer: the sum of the environment's rewards, and the numbers of its last infos."""

    async def score(state: TaskState, target: Target) -> Score:
        infos = state.store.get("infos")
        # The index of a task is no measure.
        values = {key: float(value) for key, value in infos.items() if key != "task_index"}
        return Score(value={RETURN: state.store.get(RETURN), **values})

    return score
