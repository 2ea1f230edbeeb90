"""An episode as text for people and central critics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_decpomdp.episode import Episode, Verdict
from llm_decpomdp.tasks import Task
from llm_decpomdp.utils.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console


def earned(verdict: Verdict) -> str:
    """One line: the reward and its components."""
    points = ", ".join(f"{name} {value:+.2f}" for name, value in verdict.components.items())
    return f"reward {verdict.reward:.2f} ({points})"


def judgement(verdict: Verdict) -> str:
    """One paragraph: the reward, its components and every test that did not pass."""
    lines = [earned(verdict)]
    if verdict.error is not None:
        lines.append(f"could not load: {verdict.error.message}")
    if verdict.tests:
        lines.append(f"tests {verdict.tests_passed}/{len(verdict.tests)} passed")
    lines += [f"  {t.status}: {t.case}  {t.message}" for t in verdict.tests if not t.passed]
    return "\n".join(lines)


def transcript(task: Task, episode: Episode, num_turns: int) -> str:
    """The whole episode: every prompt, completion and verdict, then what each agent sees now."""
    parts = [f"Task {task.task_id}"]
    for number, turn in enumerate(episode.turns, 1):
        parts.append(f"===== turn {number} of {num_turns} =====")
        for agent, prompt in turn.prompts.items():
            parts.append(f"--- {agent} sees ---\n{prompt}")
            parts.append(f"--- {agent} answers ---\n{turn.completions[agent]}")
        parts.append(f"--- verdict ---\n{judgement(turn.verdict)}")
    for agent, prompt in episode.prompts.items():
        if prompt:
            parts.append(f"--- {agent} sees now ---\n{prompt}")
    return "\n\n".join(parts)


def print_turn(task: Task, episode: Episode, num_turns: int, viewer: str | None = None) -> None:
    """Print the newest turn and the prompts that follow it; lines are never broken, so that code can be copied.

    Args:
        task: The problem.
        episode: All that has happened.
        num_turns: The horizon.
        viewer: An agent, of whom alone prompts and answers are printed, and no tests; `None` prints everything.
    """
    from rich.console import Console

    console = Console(highlight=False)
    shown = [agent for agent in episode.prompts if viewer in (None, agent)]
    if not episode.turns:
        console.rule(plain(f"Task {task.task_id}"))
    else:
        turn, number = episode.turns[-1], len(episode.turns)
        console.rule(f"turn {number} of {num_turns}")
        for agent in shown:
            _block(console, f"{agent} answers", turn.completions[agent], "green")
        verdict = judgement(turn.verdict) if viewer is None else earned(turn.verdict)
        _block(console, "verdict", verdict, "yellow")
    for agent in shown:
        if episode.prompts[agent]:
            _block(console, f"{agent} sees", episode.prompts[agent], "cyan")


def _block(console: Console, title: str, text: str, color: str) -> None:
    """A text as it is, below its title."""
    console.rule(plain(title), align="left", style=color)
    console.print(plain(text), soft_wrap=True)
