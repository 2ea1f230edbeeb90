"""Strategies: scripted teams, whose scores are the known numbers of a family and the bounds of its exploits.

A family declares them in its reward's attribute `strategies`. `llm-decpomdp check rewards ENV_ID` plays them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llm_decpomdp.oracle import answers
from llm_decpomdp.seeding import stream

Act = Callable[[Any, Mapping[str, str], np.random.Generator], Mapping[str, str]]
"""From the environment, the prompts of the acting agents and random numbers to a text for each of these agents.

`env.unwrapped.task` and `env.unwrapped.episode.turns` have all that there is to know.
"""

NUMBERS = {
    "optimum": "best team",
    "alone": "best single agent, beside silent ones",
    "silent": "best team without messages, or without later turns",
    "random": "random legal commands",
}
"""The known numbers; every other strategy is an exploit."""


@dataclass(frozen=True)
class Strategy:
    """A scripted team."""

    act: Act
    bound: str = ""
    """The strategy that it must not beat; by default `optimum` for the known numbers, `alone` for exploits."""
    exact: Callable[[Any], float] | None = None
    """Exact expected score of a task, by a formula or a search."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment that it is played in, such as `{"channel": {}}`."""
    limit: Callable[[Any], float] | None = None
    """Upper bound of the expected score of a task, for a known number that is played but not exact."""


def each(build: Callable[[Any, int, np.random.Generator], str]) -> Act:
    """Return the team whose agent number i says `build(env, i, rng)`."""

    def act(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
        numbers = {agent: i for i, agent in enumerate(env.unwrapped.possible_agents)}
        return {agent: build(env.unwrapped, numbers[agent], rng) for agent in prompts}

    return act


def say(text: str) -> Act:
    """Return the team that always says a text."""
    return lambda env, prompts, rng: dict.fromkeys(prompts, text)


def repeat_prompt(
    env: Any, prompts: Mapping[str, str], rng: np.random.Generator
) -> Mapping[str, str]:
    """Say what the prompts say."""
    return prompts


def say_references(
    env: Any, prompts: Mapping[str, str], rng: np.random.Generator
) -> Mapping[str, str]:
    """Say the correct answers."""
    references = answers(env).references
    return {agent: references[agent] for agent in prompts}


OPTIMUM = Strategy(say_references, exact=lambda task: 1.0)
"""The best team of a family whose references earn 1 on every task."""


def exploits(example: str, bound: str = "") -> dict[str, Strategy]:
    """Return the exploits that every family has.

    `example` is that of the prompts.
    """
    return {
        "empty answer": Strategy(say(""), bound),
        "copied example": Strategy(say(example), bound),
        "repeats the prompt": Strategy(repeat_prompt, bound),
    }


def only(agent: str, act: Act) -> Act:
    """Return the team of which one agent acts, and all others are silent."""

    def act_alone(
        env: Any, prompts: Mapping[str, str], rng: np.random.Generator
    ) -> Mapping[str, str]:
        texts = act(env, prompts, rng)
        return {name: texts[name] if name == agent else "" for name in prompts}

    return act_alone


def play(env: Any, task_id: str, strategy: Strategy, seed: int = 0) -> float:
    """Play an episode, and return the sum of its rewards.

    Args:
        env: The environment of the strategy.
        task_id: The task.
        strategy: The team.
        seed: Seed of its random numbers.
    """
    rng, total = stream(seed, "strategy", task_id), 0.0
    prompts, _ = env.reset(seed=seed, options={"task_id": task_id})
    while env.agents:
        acting = getattr(env, "acting", env.agents)
        texts = strategy.act(env, {agent: prompts[agent] for agent in acting}, rng)
        prompts, rewards, *_ = env.step(dict(texts))
        total += next(iter(rewards.values()))
    return total


def exact_numbers(env: Any) -> dict[str, float]:
    """Return the exact known numbers of an environment, means over its tasks.

    Empty unless there are those of the best team and of the best one without messages.
    """
    reward = getattr(env.unwrapped, "reward", None)
    strategies: Mapping[str, Strategy] = getattr(reward, "strategies", {})
    exact = {name: strategies[name].exact for name in NUMBERS if name in strategies}
    if not exact.get("optimum") or not exact.get("silent"):
        return {}
    tasks = env.unwrapped.tasks.tasks
    return {
        name: sum(map(score, tasks)) / len(tasks)
        for name, score in exact.items()
        if score is not None
    }
