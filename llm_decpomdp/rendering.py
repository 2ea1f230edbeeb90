"""An episode as text for people and central critics, and a reward as data for reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llm_decpomdp.interfaces import Component, Reward, Verdict
from llm_decpomdp.utils.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from llm_decpomdp.env import DecPOMDPEnv


def format_reward(verdict: Verdict) -> str:
    """Return the reward and its components as a line."""
    points = ", ".join(f"{name} {value:+.2f}" for name, value in verdict.components.items())
    return f"reward {verdict.reward:.2f} ({points})"


def format_verdict(reward: Reward, verdict: Verdict) -> str:
    """Return the reward, its components and the reward's notes as a paragraph."""
    return "\n".join([format_reward(verdict), *notes(reward, verdict)])


def transcript(env: DecPOMDPEnv) -> str:
    """Return the whole episode: every prompt, completion and verdict, then each agent's current prompt."""
    episode = env.episode
    parts = [f"Task {episode.task_id}"]
    for number, turn in enumerate(episode.turns, 1):
        parts.append(f"===== turn {number} of {env.num_turns} =====")
        for agent, prompt in turn.prompts.items():
            parts.append(f"--- {agent} sees ---\n{prompt}")
            parts.append(f"--- {agent} answers ---\n{turn.completions[agent]}")
        parts.append(f"--- verdict ---\n{format_verdict(env.reward, turn.verdict)}")
    for agent, prompt in episode.prompts.items():
        if prompt:
            parts.append(f"--- {agent} sees now ---\n{prompt}")
    return "\n\n".join(parts)


def print_turn(env: DecPOMDPEnv, viewer: str | None = None, *, judged: bool = True) -> None:
    """Print the newest turn and the prompts after it; for a `viewer` its own prompts and answers, and no tests.

    Without `judged`, print only the prompts: the environment has not judged the turn, as after messages.
    """
    from rich.console import Console

    # Rich would color the numbers in titles.
    console, episode = Console(highlight=False), env.episode
    visible_agents = [agent for agent in episode.prompts if viewer in (None, agent)]
    if judged and not episode.turns:
        console.rule(plain(f"Task {episode.task_id}"))
    elif judged:
        turn, number = episode.turns[-1], len(episode.turns)
        # `unwrapped`: a channel has more turns.
        console.rule(f"turn {number} of {env.unwrapped.num_turns}")
        for agent in [agent for agent in visible_agents if agent in turn.completions]:
            _block(console, f"{agent} answers", turn.completions[agent], "green")
        verdict = turn.verdict
        text = format_verdict(env.reward, verdict) if viewer is None else format_reward(verdict)
        _block(console, "verdict", text, "yellow")
    for agent in visible_agents:
        if episode.prompts[agent]:
            _block(console, f"{agent} sees", episode.prompts[agent], "cyan")


def _block(console: Console, title: str, text: str, color: str) -> None:
    """Print a text without markup, below its title."""
    console.rule(plain(title), align="left", style=color)
    # No line breaks of its own, so that code can be copied.
    console.print(plain(text), soft_wrap=True)


def notes(reward: Reward, verdict: Verdict) -> list[str]:
    """Return the lines of the transcript that a reward has for the details of a verdict."""
    describe = getattr(reward, "notes", None)
    return [] if describe is None else list(describe(verdict.details))


def describe_reward(reward: Reward) -> dict[str, Any]:
    """Describe a reward by JSON-able data.

    Returns:
        `maximum`, the most that a turn can earn, or `None` where that is not known, and `components`: for each
        name the fields of its `Component`, with an empty text where the reward has none. `cumulative` is true
        where the points of an episode sum to its score, and else missing.
    """
    texts = reward.components if isinstance(reward.components, Mapping) else {}
    return {
        "maximum": getattr(reward, "maximum", None),
        "components": {name: asdict(texts.get(name, Component())) for name in reward.components},
        **({"cumulative": True} if getattr(reward, "cumulative", False) else {}),
    }
