"""Charts as inline SVG: drawn by matplotlib, coloured by the page's style sheet.

Every chart is drawn twice, for wide and for narrow screens, so that its letters stay readable on both. Each
colour is a placeholder that becomes a CSS variable, so that charts follow the light and the dark scheme.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from llm_decpomdp.benchmarks.results import Row, component_names

INK, GRID, TRAIN, EVALUATION = "#010101", "#020202", "#030303", "#040404"
VARIABLES = {INK: "--muted", GRID: "--rule", TRAIN: "--train", EVALUATION: "--evaluation"}

WIDTHS = {"wide-chart": 8.4, "narrow-chart": 4.6}
"""Inches (72 CSS pixels each) by the class of the drawing."""

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "llm_decpomdp",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
}


def learning_curve(train: Sequence[Row], evaluations: Sequence[Row]) -> str:
    """The team's mean reward over the updates: each, a moving average, and the evaluations."""

    def draw(figure: Figure, width: float) -> None:
        axes = figure.subplots()
        _series(axes, train, evaluations, "reward_mean", "reward_standard_error")
        axes.set_xlabel("update")
        axes.set_ylabel("mean team reward")

    return _chart(
        "curve", "Mean team reward over the updates", draw, lambda width: 4.0 if width > 5 else 3.0
    )


def component_charts(train: Sequence[Row], evaluations: Sequence[Row]) -> str:
    """Small multiples on one scale: the points that each component of the reward earned."""
    names, _ = component_names((*train, *evaluations))

    def columns(width: float) -> int:
        return min(len(names), 4 if width > 5 else 2)

    def rows(width: float) -> int:
        return -(-len(names) // columns(width))

    def draw(figure: Figure, width: float) -> None:
        shape = rows(width), columns(width)
        grid = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, name in zip(grid, names, strict=False):
            _series(axes, train, evaluations, f"reward/{name}")
            axes.set_title(plain(name), loc="left", fontsize=10.5)
        for unused in grid[len(names) :]:
            unused.set_axis_off()
        for lowest in grid[max(0, len(names) - shape[1]) : len(names)]:
            lowest.tick_params(labelbottom=True)

    return _chart(
        "components", "Reward components over the updates", draw, lambda width: 1.5 * rows(width)
    )


def window(updates: int) -> int:
    """Updates in the moving average: a tenth of all, between 3 and 20."""
    return int(np.clip(updates // 10, 3, 20))


def plain(name: str) -> str:
    """A key as words."""
    return name.replace("_", " ").replace("/", " · ")


def _series(
    axes: Axes, train: Sequence[Row], evaluations: Sequence[Row], key: str, error: str = ""
) -> None:
    x, y = _column(train, "update"), _column(train, key)
    axes.plot(x, y, color=TRAIN, alpha=0.45, linewidth=0.9, marker="." if error else "")
    average = [np.mean(y[max(0, i + 1 - window(len(y))) : i + 1]) for i in range(len(y))]
    axes.plot(
        x, average, color=TRAIN, linewidth=2.2, marker="o" if len(y) == 1 else "", markersize=4
    )
    if evaluations:
        _points(axes, evaluations, key, error)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5 if error else 3))
    axes.margins(y=0.08)
    axes.tick_params(length=0)
    axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
    axes.spines[["left", "bottom"]].set_visible(False)


def _points(axes: Axes, evaluations: Sequence[Row], key: str, error: str) -> None:
    axes.errorbar(
        _column(evaluations, "update"),
        _column(evaluations, key),
        yerr=[float(row[error] or 0.0) for row in evaluations] if error else None,
        color=EVALUATION,
        linestyle="none",
        marker="D",
        markersize=5.5 if error else 4.0,
        elinewidth=1.8,
        capsize=3,
        clip_on=False,
        zorder=3,
    )


def _column(rows: Sequence[Row], key: str) -> list[float]:
    return [float(row[key]) for row in rows]


def _chart(
    name: str,
    label: str,
    draw: Callable[[Figure, float], None],
    height: Callable[[float], float],
) -> str:
    drawings = []
    for kind, width in WIDTHS.items():
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(width, max(height(width), 1.8)), layout="constrained")
            draw(figure, width)
            drawings.append(_inline(figure, f"{name}-{kind}", kind, label))
    return "\n".join(drawings)


def _inline(figure: Figure, name: str, kind: str, label: str) -> str:
    """The figure as an `svg` element whose ids begin with `name`."""
    buffer = io.StringIO()
    nothing: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    body = text[text.index(">", text.index("<svg")) + 1 :].strip()
    body = re.sub(r"<style.*?</style>|font-family: [^;]*;", "", body, flags=re.DOTALL)
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    for placeholder, variable in VARIABLES.items():
        body = body.replace(placeholder, f"var({variable})")
    width, height = figure.get_size_inches() * 72
    head = (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{label}">'
    )
    return head + body
