"""An episode as text for people and central critics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_decpomdp.episode import Episode, Turn, Verdict
from llm_decpomdp.tasks import Task

if TYPE_CHECKING:
    from rich.console import Console


def judgement(verdict: Verdict) -> str:
    """One paragraph: the reward, its components and every test that did not pass."""
    points = ", ".join(f"{name} {value:+.2f}" for name, value in verdict.components.items())
    lines = [f"reward {verdict.reward:.2f} ({points})"]
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


def print_turn(task: Task, episode: Episode, num_turns: int) -> None:
    """Print the newest turn and the prompts that follow it, in panels."""
    from rich.console import Console

    console = Console()
    if not episode.turns:
        console.rule(f"Task {task.task_id}")
    else:
        _print_answers(console, episode.turns[-1], len(episode.turns), num_turns)
    for agent, prompt in episode.prompts.items():
        if prompt:
            _panel(console, f"{agent} sees", prompt, "cyan")


def _print_answers(console: Console, turn: Turn, number: int, num_turns: int) -> None:
    console.rule(f"turn {number} of {num_turns}")
    for agent, completion in turn.completions.items():
        _panel(console, f"{agent} answers", completion, "green")
    _panel(console, "verdict", judgement(turn.verdict), "yellow")


def _panel(console: Console, title: str, text: str, color: str) -> None:
    from rich.panel import Panel
    from rich.text import Text

    console.print(Panel(Text(text), title=title, title_align="left", border_style=color))
