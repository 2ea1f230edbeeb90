"""The page and the table of the hypotheses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from llm_decpomdp.benchmarks.report.charts import Chart, Palette, inline
from llm_decpomdp.benchmarks.report.document import reproduction
from llm_decpomdp.benchmarks.report.page import box, page, prose, table, tag
from llm_decpomdp.utils.storage import write_atomically
from studies.hypotheses.hypothesis import FIRST_SEED
from studies.hypotheses.suite import DECLARATION, HYPOTHESES, RULE
from studies.hypotheses.verdicts import ClauseResult, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NARROW = 6.0
"""Narrower charts, in inches, have no room for the words of predictions."""

HEAD = ("", "hypothesis", "verdict", "corrected p", "prediction", "measured (95 %)", "seeds")

EXPLANATION = (
    "Each hypothesis was declared with its measure and its bounds before the first seed was measured. The "
    "fingerprint covers the declarations, the rule and the code of the suite. Settings were tried on other seeds, "
    "from 1000 on. Verdicts on earlier declarations, with seeds from 0 and from 2000 on, were known when these "
    f"declarations were written. Their seeds begin with {FIRST_SEED}. {RULE} The intervals of the mean over seeds "
    "are of the bootstrap and too narrow with few seeds. The test by flipped signs assumes symmetric "
    "distributions: in simulations with 20 seeds and skewed distributions, p was up to 2.5 times too small. If "
    "p is multiplied by eighteen, twenty seeds detect an effect of 0.9 standard deviations with a power of 80 "
    "%. Smaller effects often remain undecided. "
    "Compared budgets have equal numbers of completions, of one token unless a setting says otherwise."
)


def rows(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each prediction. Only the first one of a hypothesis has the cells of the hypothesis."""
    for verdict in verdicts:
        for place, finding in enumerate(verdict.findings):
            first = (
                verdict.hypothesis.id,
                verdict.hypothesis.statement,
                verdict.word,
                f"{verdict.p:.2g}",
            )
            yield (
                *(first if place == 0 else ("",) * len(first)),
                finding.clause.words,
                interval(finding),
                str(finding.seeds),
            )


def interval(finding: ClauseResult) -> str:
    """Return a mean with its interval."""
    return f"{finding.mean:.3g} ({finding.low:.3g} to {finding.high:.3g})"


def markdown(verdicts: Sequence[Verdict]) -> str:
    """Return the table in Markdown."""
    head = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    body = ["| " + " | ".join(cells) + " |" for cells in rows(verdicts)]
    return "\n".join([*head, *body]) + "\n"


def write_page(verdicts: Sequence[Verdict], folder: Path) -> Path:
    """Write `science.md` and `report.html` of judged hypotheses; return the page's path."""
    write_atomically(folder / "science.md", markdown(verdicts))
    target = folder / "report.html"
    write_atomically(target, page("Science", _blocks(verdicts, folder)))
    return target


def _blocks(verdicts: Sequence[Verdict], folder: Path) -> Iterator[str]:
    counts = {word: sum(v.word == word for v in verdicts) for word in WORDS}
    yield box(
        "header",
        (
            tag("h1", "Hypotheses"),
            tag("p", ", ".join(f"{count} {word}" for word, count in counts.items()) + "."),
            *_missing_line(verdicts),
            prose(EXPLANATION),
        ),
    )
    sections = [_summary(verdicts), *map(_section, verdicts), _origin(verdicts, folder)]
    yield box("main", (box("section", blocks) for blocks in sections))


def _missing_line(verdicts: Sequence[Verdict]) -> Iterator[str]:
    missing = [h.id for h in HYPOTHESES if h.id not in {v.hypothesis.id for v in verdicts}]
    if missing:
        of = f"{len(missing)} of the {len(HYPOTHESES)} declared hypotheses"
        yield tag("p", f"Not measured: {', '.join(missing)}, {of}; p is corrected for all.")


def _summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    claims = [
        (f"{v.hypothesis.id}: {v.hypothesis.statement}", v.word, f"{v.p:.2g}") for v in verdicts
    ]
    yield table("verdicts", ("hypothesis", *HEAD[2:4]), claims)
    yield inline(margins(verdicts))
    yield prose(
        "The line is the bound of each prediction, with the predicted side to the right. Points are means with "
        "95 % intervals. Every row has its own scale.",
        "small",
    )


def margins(verdicts: Sequence[Verdict]) -> Chart:
    """Return the chart of the distances of the measured means from the bounds."""
    findings = [(verdict, finding) for verdict in verdicts for finding in verdict.findings]

    def draw(figure: Figure, width: float, palette: Palette) -> None:
        axes = figure.subplots()
        axes.axvline(0, color=palette.ink, linewidth=1)
        for word, colour in zip(WORDS, palette.series, strict=False):
            places = [i for i, (verdict, _) in enumerate(findings) if verdict.word == word]
            values = np.array([_scale(findings[i][1]) for i in places]).reshape(-1, 3)
            means, reach = values[:, 1], np.abs(values[:, [0, 2]] - values[:, [1]]).T
            axes.errorbar(
                means, places, xerr=reach, fmt="o", markersize=4, color=colour, label=word
            )
        labels = [
            f"{verdict.hypothesis.id}: {finding.clause.words}"
            if width > NARROW
            else verdict.hypothesis.id
            for verdict, finding in findings
        ]
        axes.set_yticks(range(len(findings)), labels, fontsize=8)
        axes.set_ylim(len(findings) - 0.5, -0.5)
        axes.set_xlim(-1.1, 1.1)
        axes.set_xticks([])
        figure.legend(loc="outside upper right", ncols=len(WORDS), frameon=False)

    label = "Distance of the measured mean from the bound of each prediction"
    return Chart("margins", label, draw, lambda width: 0.8 + 0.22 * len(findings))


def _scale(finding: ClauseResult) -> list[float]:
    """Return low end, mean and high end as distances from the bound towards the predicted side, -1 to 1."""
    sign = 1.0 if finding.clause.below is None else -1.0
    ends = (finding.low, finding.mean, finding.high)
    distances = sorted(sign * (value - finding.clause.bound) for value in ends)
    scale = max(map(abs, distances)) or 1.0
    return [distance / scale for distance in distances]


def _section(verdict: Verdict) -> Iterator[str]:
    hypothesis = verdict.hypothesis
    yield tag("h2", f"{hypothesis.id}: {verdict.word}")
    yield prose(hypothesis.statement)
    yield prose(f"Why: {hypothesis.theory}", "small")
    yield prose(f"How: {hypothesis.setting}", "small")
    if hypothesis.untested:
        yield prose(f"Not tested: {hypothesis.untested}", "small")
    predictions = [(f.clause.words, interval(f), str(f.seeds)) for f in verdict.findings]
    yield table(hypothesis.id, HEAD[4:], predictions)


def _origin(verdicts: Sequence[Verdict], folder: Path) -> Iterator[str]:
    declaration = json.loads((folder / DECLARATION).read_text())
    yield tag("h2", "Origin")
    yield tag(
        "p",
        f"Declared {declaration['declared']} with version {declaration['version']}, fingerprint "
        f"{declaration['fingerprint']}.",
    )
    ids = [v.hypothesis.id for v in verdicts] if len(verdicts) < len(HYPOTHESES) else []
    command = " ".join(["python -m studies.hypotheses", *(f"--only {name}" for name in ids)])
    yield from reproduction(declaration["commit"], [command])


WORDS = ("confirmed", "refuted", "undecided")
