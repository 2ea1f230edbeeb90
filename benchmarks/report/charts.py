"""Figures of the report, drawn by matplotlib: inline in the page, and as files for papers."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from llm_decpomdp.benchmarks.evaluation.experiments import (
    Experiment,
    Series,
    TaskColumn,
    evaluated_after,
)
from llm_decpomdp.benchmarks.report.page import plain, tag
from llm_decpomdp.benchmarks.runs.results import component_names
from llm_decpomdp.utils.extras import installed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


KINDS = ("train", "eval")
"""Kinds of rows of metrics."""

COLOURS = 6
"""Colours of series; more experiments share them."""


@dataclass(frozen=True)
class Palette:
    """The colours of a figure."""

    ink: str
    grid: str
    series: tuple[str, ...]


PLACEHOLDERS = Palette("#010101", "#020202", tuple(f"#0303{i:02d}" for i in range(1, COLOURS + 1)))
VARIABLES = {PLACEHOLDERS.ink: "--muted", PLACEHOLDERS.grid: "--rule"} | {
    colour: f"--series-{i}" for i, colour in enumerate(PLACEHOLDERS.series, 1)
}
PAPER = Palette(
    "#333333", "#dddddd", ("#0067a5", "#bd4a00", "#1a7a4c", "#8a3ffc", "#a8326e", "#6b6b00")
)

# Letters keep their size in a drawing, so a phone gets a narrower drawing instead of a smaller one.
WIDTHS = {"wide-chart": 8.6, "narrow-chart": 4.6}
"""Inches (72 CSS pixels each) by the class of the drawing."""

UNDRAWN = "matplotlib draws the figures, and is not installed: pip install matplotlib, and write the report again."
"""Stands where a figure would."""

DOTTED = 60
"""Updates up to which each has a dot of its own."""

Array = npt.NDArray[np.float64]
Draw = Callable[["Figure", float, Palette], None]


@dataclass(frozen=True)
class Chart:
    """A figure that can be drawn at any width."""

    name: str
    label: str
    """Description for those who do not see it."""
    draw: Draw
    height: Callable[[float], float]
    """Inches, by the width."""

    def figure(self, width: float, palette: Palette) -> Figure:
        """Draw it."""
        import matplotlib as mpl
        from matplotlib.figure import Figure

        with mpl.rc_context(_style(palette)):
            size = (width, self.height(width))
            figure = Figure(figsize=size, layout="constrained")
            self.draw(figure, width, palette)
            return figure


def learning_curve(experiments: Sequence[Experiment]) -> Chart:
    """Return the curve of the team's mean reward over the updates."""

    def draw(figure: Figure, width: float, palette: Palette) -> None:
        axes = figure.subplots()
        _curves(axes, experiments, "reward_mean", palette, large=True)
        axes.set_xlabel("update")
        axes.set_ylabel("mean team reward")

    label = "Mean team reward over the updates"
    return Chart("learning", label, draw, lambda width: 3.8 if width > 5 else 3.1)


def component_charts(experiments: Sequence[Experiment]) -> Chart:
    """Return small multiples on one scale: the points that each component of the reward earned."""
    names, _ = component_lists(experiments)

    def columns(width: float) -> int:
        return min(len(names), 4 if width > 5 else 2)

    def rows(width: float) -> int:
        return -(-len(names) // columns(width))

    def draw(figure: Figure, width: float, palette: Palette) -> None:
        shape = rows(width), columns(width)
        grid = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, name in zip(grid, names, strict=False):
            _curves(axes, experiments, f"reward/{name}", palette, large=False)
            axes.set_title(plain(name), loc="left", fontsize=10.5)
        for unused in grid[len(names) :]:
            unused.set_axis_off()
        for lowest in grid[max(0, len(names) - shape[1]) : len(names)]:
            lowest.tick_params(labelbottom=True)

    label = "Reward components over the updates"
    return Chart("components", label, draw, lambda width: max(1.6 * rows(width), 1.9))


def component_lists(experiments: Sequence[Experiment]) -> tuple[list[str], list[str]]:
    """Return the components of the reward that ever counted, and those that are always zero."""
    return component_names([row for e in experiments for k in KINDS for row in e.rows(k)])


def task_map(columns: Sequence[TaskColumn]) -> Chart:
    """Return a heat map of tasks (down) and evaluations (across)."""
    names = list(dict.fromkeys(task for column in columns for task in column.rewards))
    labels = ["\n".join((*column.lines, column.title)) for column in columns]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    values = np.array([[c.rewards.get(name, np.nan) for c in columns] for name in names])

    def draw(figure: Figure, width: float, palette: Palette) -> None:
        axes = figure.subplots()
        image = axes.imshow(values, aspect="auto", cmap="Blues", vmin=min(0.0, np.nanmin(values)))
        axes.set_xticks(range(len(columns)), labels, rotation=20, ha="right", fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.grid(False)
        figure.colorbar(image, ax=axes, label="mean team reward")

    label = "Mean team reward by task and evaluation"
    return Chart("tasks", label, draw, lambda width: 1.5 + 0.03 * longest + 0.18 * len(names))


def window(updates: int) -> int:
    """Return the number of updates in the moving average: a tenth of all, between 3 and 20."""
    # Below three updates nothing is smoothed, above twenty a curve lags behind.
    return int(np.clip(updates // 10, 3, 20))


def colours(experiments: Sequence[Experiment]) -> Iterator[tuple[int, int]]:
    """Yield for each experiment the numbers, from 0 on, of the colours of its training and its evaluation."""
    for index in range(len(experiments)):
        yield (0, 1) if len(experiments) == 1 else (index % COLOURS, index % COLOURS)


def _curves(
    axes: Axes, experiments: Sequence[Experiment], key: str, palette: Palette, *, large: bool
) -> None:
    from matplotlib.ticker import MaxNLocator

    for experiment, (train, evaluation) in zip(experiments, colours(experiments), strict=True):
        _training(
            axes, experiment.series("train", key), palette.series[train], large, len(experiments)
        )
        points = experiment.series("eval", key)
        bars = _bars(experiment, points) if large else None
        _evaluations(axes, points, bars, palette.series[evaluation], large, len(experiments) > 1)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5 if large else 3))
    axes.margins(y=0.08)
    axes.tick_params(length=0)
    axes.axhline(0, color=palette.ink, linewidth=0.8, zorder=1)
    axes.spines[["left", "bottom"]].set_visible(False)


def _bars(experiment: Experiment, points: Series) -> Array:
    """Return lengths (2, evaluations) of the intervals below and above the means; 0 where there is none."""
    estimates = [evaluated_after(experiment, update) for update in points.updates]
    lengths = [
        (0.0, 0.0)
        if estimate.low is None or estimate.high is None
        else (estimate.value - estimate.low, estimate.high - estimate.value)
        for estimate in estimates
    ]
    return np.array(lengths).T


def _training(axes: Axes, series: Series, colour: str, large: bool, count: int) -> None:
    if not series.updates:
        return
    size = window(len(series.updates))
    smooth = np.array([_moving_average(values, size) for values in series.values])
    dots: dict[str, Any] = {"marker": "o" if len(series.updates) == 1 else "", "markersize": 4}
    axes.plot(series.updates, smooth.mean(axis=0), color=colour, linewidth=2.2, **dots)
    if len(series.values) > 1:
        low, high = smooth.min(axis=0), smooth.max(axis=0)
        axes.fill_between(series.updates, low, high, color=colour, alpha=0.16, linewidth=0)
    elif count == 1:
        marker = "." if large and len(series.updates) <= DOTTED else ""
        axes.plot(series.updates, series.values[0], color=colour, alpha=0.4, lw=0.9, marker=marker)


def _moving_average(values: Sequence[float], size: int) -> list[float]:
    return [float(np.mean(values[max(0, i + 1 - size) : i + 1])) for i in range(len(values))]


def _evaluations(
    axes: Axes, series: Series, bars: Array | None, colour: str, large: bool, dashed: bool
) -> None:
    if not series.updates:
        return
    axes.errorbar(
        series.updates,
        series.values.mean(axis=0),
        yerr=bars,
        color=colour,
        linestyle=(0, (2, 2)) if dashed else "none",
        linewidth=1.2,
        marker="D",
        markersize=5.5 if large else 4.0,
        elinewidth=1.6,
        capsize=3,
        clip_on=False,
        zorder=3,
    )


def inline(chart: Chart) -> Markup:
    """Return the figure as two `svg` elements, or a line that says why it is missing."""
    if installed("matplotlib") is None:
        return tag("p", f"{chart.label}: {UNDRAWN}", "note")
    return Markup("\n".join(_svg(chart, kind, width) for kind, width in WIDTHS.items()))


def save(chart: Chart, folder: Path) -> None:
    """Write `<name>.svg` and `<name>.png`, with colours for white paper."""
    import matplotlib as mpl

    figure = chart.figure(WIDTHS["wide-chart"], PAPER)
    with mpl.rc_context(_style(PAPER)):
        for ending in ("svg", "png"):
            metadata: dict[str, Any] = {"Date": None} if ending == "svg" else {}
            path = folder / f"{chart.name}.{ending}"
            figure.savefig(path, dpi=200, facecolor="white", metadata=metadata)


def _svg(chart: Chart, kind: str, width: float) -> str:
    """Return the figure as an `svg` element whose ids begin with its name and kind."""
    import matplotlib as mpl

    figure = chart.figure(width, PLACEHOLDERS)
    buffer = io.StringIO()
    # Dates and versions would make equal runs give different pages.
    nothing: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context(_style(PLACEHOLDERS)):
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    body = text[text.index(">", text.index("<svg")) + 1 :].strip()
    body = re.sub(r"<style.*?</style>|font-family: [^;]*;", "", body, flags=re.DOTALL)
    # Two drawings on one page must not share ids.
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{chart.name}-{kind}-", body)
    for placeholder, variable in VARIABLES.items():
        body = body.replace(placeholder, f"var({variable})")
    across, down = figure.get_size_inches() * 72
    box = f'viewBox="0 0 {across:g} {down:g}"'
    return f'<svg class="{kind}" {box} role="img" aria-label="{chart.label}">{body}'


def _style(palette: Palette) -> dict[Any, Any]:
    coloured = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color")
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "llm_decpomdp",
        "text.parse_math": False,
        "font.family": "sans-serif",
        "font.size": 10.5,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": palette.grid,
        "grid.linewidth": 0.8,
        **dict.fromkeys((*coloured, "xtick.color", "ytick.color"), palette.ink),
    }
