"""The panels of the page: each turns experiments into markup, or into nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.panels.cooperation import cooperation
from llm_decpomdp.benchmarks.report.panels.cooperation_summary import story
from llm_decpomdp.benchmarks.report.panels.costs import costs
from llm_decpomdp.benchmarks.report.panels.credit import credit
from llm_decpomdp.benchmarks.report.panels.crossplay import crossplay
from llm_decpomdp.benchmarks.report.panels.curves import components, learning
from llm_decpomdp.benchmarks.report.panels.outcome import outcome
from llm_decpomdp.benchmarks.report.panels.tasks import tasks
from llm_decpomdp.benchmarks.report.panels.transcripts import transcripts


@dataclass(frozen=True)
class Panel:
    """A part of the page."""

    anchor: str
    title: str
    """Its heading."""
    short: str
    """Its name in the navigation."""
    draw: Callable[[Sequence[Experiment]], str]
    """Its markup; a panel without any is left out."""
    place: str = ""
    """On wide screens: the `left` or `right` half, or `wide` for more than the width of the text."""


PANELS = (
    Panel("together", "Did they learn to work together?", "Together", story),
    Panel("summary", "Summary", "Summary", outcome),
    Panel("learning", "Learning", "Learning", learning),
    Panel("components", "Where the reward comes from", "Reward", components),
    Panel("tasks", "Task by task", "Tasks", tasks, "left"),
    Panel("cooperation", "How the agents work together", "Cooperation", cooperation, "right"),
    Panel("costs", "What it cost", "Cost", costs, "right"),
    Panel("credit", "Who earned the reward", "Credit", credit),
    Panel("crossplay", "Agents of different runs together", "Cross-play", crossplay),
    Panel("transcripts", "Transcripts", "Transcripts", transcripts, "wide"),
)
