"""The transcript browser: its controls, and all episodes in compressed chunks that the page reads on demand.

One chunk is the index, with the numbers for the filters. The texts are in many chunks, which the page unpacks when
an episode is selected. First prompts and test cases repeat between episodes, so they are stored once in a shared
chunk.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.page import render, tag
from llm_decpomdp.benchmarks.runs.results import (
    Results,
    Row,
    Score,
    is_cumulative,
    stored_rows,
    sum_of_episode,
    task_name,
)
from llm_decpomdp.picture import draw_svg, find_picture


def transcripts(experiments: Sequence[Experiment]) -> str:
    """Draw the browser of all episodes; empty if there are none."""
    pack = Pack()
    budget = LIMIT // max(sum(len(experiment.runs) for experiment in experiments), 1)
    for experiment in experiments:
        for run in experiment.runs:
            pack.add_run(run, experiment.name if len(experiments) > 1 else "", budget)
    if not pack.episodes:
        return ""
    total, note = sum(len(run.scores) for e in experiments for run in e.runs), ""
    if len(pack.episodes) < total:
        text = f"The page has {len(pack.episodes):,} of {total:,} episodes, and episodes.jsonl has all: here are "
        note = tag("p", f"{text}evaluations, and a sample over all updates.", "small")
    return "".join([note, render("transcripts"), *pack.blocks()])


LIMIT = 100_000_000
"""Bytes of `episodes.jsonl` of all runs whose texts a page holds."""


def choose_lines(scores: Sequence[Score], count: int) -> Collection[int]:
    """Choose at most `count` lines of episodes: of evaluations, the last first, and some over all updates."""
    groups: dict[tuple[str, int], list[int]] = {}
    for score in scores:
        groups.setdefault((score.phase, score.update), []).append(score.line)
    evaluations = [lines for (phase, _), lines in groups.items() if phase == "eval"]
    # The last evaluation comes first, so that a limit keeps it.
    ordered = [line for lines in (*evaluations[-1:], *evaluations[:-1]) for line in lines]
    rest = [line for (phase, _), lines in groups.items() if phase != "eval" for line in lines]
    left = max(count - len(ordered), 0)
    # Evenly over the updates, with the last ones.
    spread = rest[:: -(-len(rest) // left)] if left and rest else []
    return set([*ordered, *spread][:count])


class Pack:
    """Packed episodes of a page."""

    # A browser unpacks a chunk of this size in milliseconds; thousands of episodes make some dozens.
    CHUNK = 300_000
    """Characters of JSON after which a new chunk begins."""

    def __init__(self) -> None:
        self.runs: list[Row] = []
        self.tasks: dict[str, int] = {}
        self.components: dict[str, int] = {}
        self.episodes: list[list[Any]] = []
        """For each episode its run, phase, update, task, for each group the turn, rewards and solved, and the sum
        over the turns where that is the score."""
        self._shared: dict[str, int] = {}
        self._starts: list[int] = []
        self._chunks: list[str] = []
        self._texts: list[str] = []
        self._size = 0

    def add_run(self, run: Results, experiment: str, budget: int = LIMIT) -> None:
        """Add the episodes of a run, or those that fit into a number of bytes."""
        seed = run.manifest.get("seed")
        about = {"name": run.path.name, "seed": seed, "experiment": experiment}
        cumulative = is_cumulative(run.manifest)
        self.runs.append({**about, "trained": bool(run.train)})
        path, lines = run.path / "episodes.jsonl", None
        if path.exists() and path.stat().st_size > budget:
            mean = path.stat().st_size / len(run.scores)
            lines = choose_lines(run.scores, int(budget / mean))
        for _, row in stored_rows(path, lines):
            self._add(row, cumulative)

    def blocks(self) -> Iterator[str]:
        """Yield the chunks as elements of the page."""
        self._close()
        index = {
            "runs": self.runs,
            "tasks": list(self.tasks),
            "components": list(self.components),
            "episodes": self.episodes,
            "starts": self._starts,
        }
        for name, content in (("index", index), ("shared", list(self._shared))):
            yield render("chunk", name, _compress(json.dumps(content, separators=(",", ":"))))
        for number, text in enumerate(self._chunks):
            yield render("chunk", f"chunk-{number}", text)

    def _add(self, row: Row, cumulative: bool) -> None:
        if not self._texts:
            self._starts.append(len(self.episodes))
        task = self.tasks.setdefault(task_name(row), len(self.tasks))
        groups = [
            [
                group["turn"],
                [round(value, 4) for value in group["rewards"]],
                _solved_flags(group["infos"]),
            ]
            for group in row["groups"]
        ]
        # Numbers instead of names keep the index of thousands of episodes small.
        phase = 1 if row["phase"] == "eval" else 0
        total = [round(sum_of_episode(row["groups"]), 4)] if cumulative else []
        self.episodes.append([len(self.runs) - 1, phase, row["update"], task, groups, *total])
        # Serialized now, so that only the text of one chunk is in memory.
        text = json.dumps(self._text(row), separators=(",", ":"))
        self._texts.append(text)
        self._size += len(text)
        if self._size > self.CHUNK:
            self._close()

    def _close(self) -> None:
        if self._texts:
            self._chunks.append(_compress(f"[{','.join(self._texts)}]"))
            self._texts, self._size = [], 0

    def _text(self, row: Row) -> Row:
        """Return the texts and verdicts of an episode, which are not in the index."""
        final: Row = row["final"] or {}
        turns: list[Row] = final.get("turns", [])
        # A wrapper may play other turns than its environment records.
        if len(turns) != len(row["groups"]):
            turns = []
        return {
            "groups": [self._group(group) for group in row["groups"]],
            "verdicts": [self._verdict(turn["verdict"]) for turn in turns],
            "early": bool(row["stopped_early"]),
        }

    def _group(self, group: Row) -> Row:
        first = group["turn"] == 0
        prompts: Mapping[str, str] = group["prompts"]
        return {
            "parent": group["parent"] and [group["parent"]["group"], group["parent"]["sample"]],
            "chosen": group["chosen"],
            # Later prompts have the answers of the turn before, so they hardly repeat.
            "prompts": {a: self._share(text) if first else text for a, text in prompts.items()},
            "completions": group["completions"],
            "reasons": group["finish_reasons"],
            "joint": group["joint"],
            "points": [self._points(info) for info in group["infos"]],
            **({"own": group["own"]} if "own" in group else {}),
            "tests": [
                [info["tests_passed"], info["tests_total"]] if "tests_total" in info else None
                for info in group["infos"]
            ],
        }

    def _points(self, info: Mapping[str, float]) -> list[list[float]]:
        return [
            [
                self.components.setdefault(key.removeprefix("reward/"), len(self.components)),
                round(value, 4),
            ]
            for key, value in info.items()
            if key.startswith("reward/")
        ]

    def _verdict(self, verdict: Row) -> Row:
        details = verdict["details"]
        tests = [
            [self._share(t["case"]), t["passed"], t["status"], t["message"], t["origin"], t["line"]]
            for t in details.get("tests", ())
        ]
        picture = find_picture(details)
        return {
            "tests": tests,
            "error": (details.get("error") or {}).get("message"),
            **({"picture": draw_svg(picture)} if picture else {}),
        }

    def _share(self, text: str) -> int:
        return self._shared.setdefault(text, len(self._shared))


def _solved_flags(infos: Sequence[Mapping[str, float]]) -> list[int] | None:
    """Return whether each joint sample solved the task; `None` if the environment does not tell."""
    if not infos or "solved" not in infos[0]:
        return None
    return [int(info["solved"]) for info in infos]


def _compress(text: str) -> str:
    # Base64 has no character that could end a script element.
    # The header of gzip has no time, so that equal runs give equal pages.
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
