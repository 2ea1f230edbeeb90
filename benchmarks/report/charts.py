"""Figures of the report, drawn by matplotlib: inline in the page, and as files for papers.

Without matplotlib, the page has a note in place of each figure.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from llm_decpomdp.benchmarks.evaluation.statistics import LEVEL, Estimate, student_quantile
from llm_decpomdp.benchmarks.report.page import plain, tag
from llm_decpomdp.benchmarks.runs.results import component_names
from llm_decpomdp.utils.extras import installed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLORS = 6


@dataclass(frozen=True)
class Palette:
    """The colors of a figure."""

    ink: str
    grid: str
    series: tuple[str, ...]


# matplotlib takes no CSS variables. The drawing has colors that nothing else uses, and each is
# replaced by its variable, so that the page can change its colors in dark mode.
PLACEHOLDERS = Palette("#010101", "#020202", tuple(f"#0303{i:02d}" for i in range(1, COLORS + 1)))
VARIABLES = {PLACEHOLDERS.ink: "--muted", PLACEHOLDERS.grid: "--rule"} | {
    color: f"--series-{i}" for i, color in enumerate(PLACEHOLDERS.series, 1)
}
PAPER = Palette(
    "#333333", "#dddddd", ("#0067a5", "#bd4a00", "#1a7a4c", "#8a3ffc", "#a8326e", "#6b6b00")
)

# Letters keep their size in a drawing, so a phone gets a narrower drawing instead of a smaller one.
WIDTHS = {"wide-chart": 8.6, "narrow-chart": 4.6}
"""Inches (72 CSS pixels each) by the class of the drawing."""

ENOUGH_SEEDS = 3
"""Seeds from which on a band is an interval of the mean: with two it would be wider than the figure."""

# More dots than this on a curve merge into a band.
DOTTED = 60

Array = npt.NDArray[np.float64]
Draw = Callable[["Figure", float, Palette], None]


@dataclass(frozen=True)
class Chart:
    """A figure that can be drawn at any width."""

    name: str
    label: str
    """Description for screen readers."""
    draw: Draw
    height: Callable[[float], float]

    def figure(self, width: float, palette: Palette) -> Figure:
        """Draw it."""
        import matplotlib as mpl
        from matplotlib.figure import Figure

        with mpl.rc_context(_style(palette)):
            # Not by pyplot, which keeps all figures and chooses a display.
            figure = Figure(figsize=(width, self.height(width)), layout="constrained")
            self.draw(figure, width, palette)
            return figure


def learning_curve(experiments: Sequence[Experiment]) -> Chart:
    """Return the curve of the team's mean reward over the updates."""

    def draw(figure: Figure, width: float, palette: Palette) -> None:
        axes = figure.subplots()
        _draw_curves(axes, experiments, "reward_mean", palette, large=True)
        axes.set_xlabel("update")
        axes.set_ylabel("mean team reward")

    label = "Mean team reward over the updates"
    return Chart("learning", label, draw, lambda width: 3.8 if width > 5 else 3.1)


def component_charts(experiments: Sequence[Experiment]) -> Chart:
    """Return small multiples on one scale, one for each component of the reward."""
    names, _ = component_lists(experiments)

    def draw(axes: Axes, index: int, palette: Palette) -> None:
        _draw_curves(axes, experiments, f"reward/{names[index]}", palette, large=False)

    label = "Reward components over the updates"
    return _small_multiples("components", label, list(map(plain, names)), draw, one_scale=True)


@dataclass(frozen=True)
class Line:
    """A line of a small multiple: a number of the training rows, of one or several runs."""

    series: Series
    color: int | None
    """Number of its color, from 0 on; `None` for that of the text."""


def line_charts(name: str, label: str, panels: Mapping[str, Sequence[Line]]) -> Chart:
    """Return small multiples, each with its own scale, by their titles."""
    lines = list(panels.values())

    def draw(axes: Axes, index: int, palette: Palette) -> None:
        for line in lines[index]:
            color = palette.ink if line.color is None else palette.series[line.color % COLORS]
            _draw_training(axes, line.series, color, dots=False, single=len(lines[index]) == 1)
        _style_axes(axes, palette, large=False)

    return _small_multiples(name, label, list(panels), draw, one_scale=False)


def _small_multiples(
    name: str,
    label: str,
    titles: Sequence[str],
    draw_one: Callable[[Axes, int, Palette], None],
    *,
    one_scale: bool,
) -> Chart:

    def shape(width: float) -> tuple[int, int]:
        columns = min(len(titles), 4 if width > 5 else 2)
        return -(-len(titles) // columns), columns  # rounded up

    def draw(figure: Figure, width: float, palette: Palette) -> None:
        rows, columns = shape(width)
        # Without `squeeze=False` a single drawing would not come as an array.
        grid = figure.subplots(rows, columns, sharex=True, sharey=one_scale, squeeze=False).ravel()
        for index, (axes, title) in enumerate(zip(grid, titles, strict=False)):
            draw_one(axes, index, palette)
            axes.set_title(title, loc="left", fontsize=10.5)
        for unused in grid[len(titles) :]:
            unused.set_axis_off()
        # Shared axes label only the last row, which may be incomplete.
        for lowest in grid[max(0, len(titles) - columns) : len(titles)]:
            lowest.tick_params(labelbottom=True)

    return Chart(name, label, draw, lambda width: max(1.6 * shape(width)[0], 1.9))


def component_lists(experiments: Sequence[Experiment]) -> tuple[list[str], list[str]]:
    """Return the components of the reward that were ever nonzero, and those that were always zero."""
    return component_names([r for e in experiments for k in ("train", "eval") for r in e.rows(k)])


def task_map(columns: Sequence[TaskColumn]) -> Chart:
    """Return a heat map of tasks (down) and evaluations (across)."""
    names = list(dict.fromkeys(task for column in columns for task in column.rewards))
    labels = ["\n".join((*column.lines, column.title)) for column in columns]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    values = np.array([[c.rewards.get(name, np.nan) for c in columns] for name in names])

    def draw(figure: Figure, width: float, palette: Palette) -> None:
        axes = figure.subplots()
        # The scale begins at 0 or below, so that white means no reward.
        image = axes.imshow(values, aspect="auto", cmap="Blues", vmin=min(0.0, np.nanmin(values)))
        axes.set_xticks(range(len(columns)), labels, rotation=20, ha="right", fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.grid(False)
        figure.colorbar(image, ax=axes, label="mean team reward")

    label = "Mean team reward by task and evaluation"
    return Chart("tasks", label, draw, lambda width: 1.5 + 0.03 * longest + 0.18 * len(names))


@dataclass(frozen=True)
class Point:
    """A team in a plane of two measures."""

    name: str
    x: Estimate
    y: Estimate


def plane(name: str, label: str, points: Sequence[Point], axes_labels: tuple[str, str]) -> Chart:
    """Return points with their intervals in both directions, each with its name beside it."""

    def draw(figure: Figure, width: float, palette: Palette) -> None:
        axes = figure.subplots()
        for index, point in enumerate(points):
            x, y = point.x, point.y
            axes.errorbar(
                [x.value],
                [y.value],
                xerr=_lengths(x),
                yerr=_lengths(y),
                color=palette.series[index % COLORS],
                marker="D",
                markersize=5.5,
                elinewidth=1.6,
                capsize=3,
            )
            axes.annotate(
                point.name,
                (x.value, y.value),
                xytext=(6, 6),
                textcoords="offset points",
                fontsize=9,
                color=palette.ink,
            )
        axes.set_xlabel(axes_labels[0])
        axes.set_ylabel(axes_labels[1])
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.tick_params(length=0)

    return Chart(name, label, draw, lambda width: 3.8 if width > 5 else 3.1)


def _lengths(estimate: Estimate) -> list[list[float]]:
    """Return the length of an interval below and above its value; 0 without an interval."""
    low, high = (estimate.value if end is None else end for end in (estimate.low, estimate.high))
    return [[estimate.value - low], [high - estimate.value]]


def moving_window(updates: int) -> int:
    """Return the number of updates in the moving average: a tenth of all, between 3 and 20."""
    # Below three updates nothing is smoothed, above twenty a curve lags behind.
    return int(np.clip(updates // 10, 3, 20))


def colors(experiments: Sequence[Experiment]) -> Iterator[tuple[int, int]]:
    """Yield the color numbers, from 0 on, of the training and the evaluations of each experiment."""
    for index in range(len(experiments)):
        yield (0, 1) if len(experiments) == 1 else (index % COLORS, index % COLORS)


def _draw_curves(
    axes: Axes, experiments: Sequence[Experiment], key: str, palette: Palette, *, large: bool
) -> None:
    several = len(experiments) > 1
    for experiment, (train, evaluation) in zip(experiments, colors(experiments), strict=True):
        series = experiment.series("train", key)
        _draw_training(axes, series, palette.series[train], dots=large, single=not several)
        points = experiment.series("eval", key)
        if points.updates:
            axes.errorbar(
                points.updates,
                points.values.mean(axis=0),
                # Small panels have no room for intervals.
                yerr=_interval_lengths(experiment, points) if large else None,
                color=palette.series[evaluation],
                linestyle=(0, (2, 2)) if several else "none",
                linewidth=1.2,
                marker="D",
                markersize=5.5 if large else 4.0,
                elinewidth=1.6,
                capsize=3,
                # The markers of the first and last evaluation are on the border of the axes.
                clip_on=False,
                zorder=3,
            )
    _style_axes(axes, palette, large=large)


def _style_axes(axes: Axes, palette: Palette, *, large: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5 if large else 3))
    axes.margins(y=0.08)
    axes.tick_params(length=0)
    axes.axhline(0, color=palette.ink, linewidth=0.8, zorder=1)
    axes.spines[["left", "bottom"]].set_visible(False)


def _interval_lengths(experiment: Experiment, points: Series) -> Array:
    """Return lengths (2, evaluations) of the intervals below and above the means; 0 without an interval."""
    lengths = [_lengths(evaluated_after(experiment, update)) for update in points.updates]
    return np.array(lengths)[:, :, 0].T


def _draw_training(axes: Axes, series: Series, color: str, *, dots: bool, single: bool) -> None:
    updates = series.updates
    if not updates:
        return
    size = moving_window(len(updates))
    smooth = np.array(
        [
            [float(np.mean(values[max(0, i + 1 - size) : i + 1])) for i in range(len(updates))]
            for values in series.values
        ]
    )
    # A line of one point is invisible without a marker.
    marker = "o" if len(updates) == 1 else ""
    axes.plot(updates, smooth.mean(axis=0), color=color, lw=2.2, marker=marker, markersize=4)
    if len(series.values) > 1:
        low, high = _band(smooth)
        axes.fill_between(updates, low, high, color=color, alpha=0.16, linewidth=0)
    elif single:
        marker = "." if dots and len(updates) <= DOTTED else ""
        axes.plot(updates, series.values[0], color=color, alpha=0.4, lw=0.9, marker=marker)


def _band(values: Array) -> tuple[Array, Array]:
    """Return the interval of the mean of values (seeds, updates), or with few seeds their range."""
    seeds = len(values)
    if seeds < ENOUGH_SEEDS:
        return values.min(axis=0), values.max(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(seeds)
    length = student_quantile(LEVEL, seeds - 1) * error
    return values.mean(axis=0) - length, values.mean(axis=0) + length


def inline(chart: Chart) -> Markup:
    """Return the figure as two `svg` elements, for wide and narrow screens, or a note if it cannot be drawn."""
    if installed("matplotlib") is None:
        remedy = "pip install matplotlib, and write the report again"
        return tag(
            "p", f"{chart.label}: not drawn, as matplotlib is not installed: {remedy}.", "note"
        )
    return Markup("\n".join(_svg(chart, kind, width) for kind, width in WIDTHS.items()))


def save(chart: Chart, folder: Path) -> None:
    """Write `<name>.svg` and `<name>.png`, with colors for white paper."""
    import matplotlib as mpl

    figure = chart.figure(WIDTHS["wide-chart"], PAPER)
    # matplotlib reads the settings of SVG when it saves a figure.
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
    # Without the header of XML and the first tag, which has a fixed size.
    body = text[text.index(">", text.index("<svg")) + 1 :].strip()
    body = re.sub(r"<style.*?</style>|font-family: [^;]*;", "", body, flags=re.DOTALL)
    # Two drawings on one page must not share ids.
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{chart.name}-{kind}-", body)
    for placeholder, variable in VARIABLES.items():
        body = body.replace(placeholder, f"var({variable})")
    # matplotlib draws an SVG with 72 units per inch.
    across, down = figure.get_size_inches() * 72
    box = f'viewBox="0 0 {across:g} {down:g}"'
    return f'<svg class="{kind}" {box} role="img" aria-label="{chart.label}">{body}'


def _style(palette: Palette) -> dict[Any, Any]:
    colored = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color")
    return {
        # Text instead of outlines is smaller, searchable, and has the font of the page.
        "svg.fonttype": "none",
        # Random ids would make equal runs give different pages.
        "svg.hashsalt": "llm_decpomdp",
        # Names of components may have dollar signs.
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
        **dict.fromkeys((*colored, "xtick.color", "ytick.color"), palette.ink),
    }
