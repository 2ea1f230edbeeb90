"""The transcript browser: its controls, and every episode in compressed chunks that the page reads on demand.

The index, with the numbers that filters need, is one chunk; the texts are many, of which the page unpacks those
that are looked at. First prompts and test cases, which repeat from episode to episode, stand once in a chunk of
their own. Chunks are JSON, gzip and base64, which holds no character that could end a script element.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_decpomdp.benchmarks.evaluation.experiments import Experiment
from llm_decpomdp.benchmarks.report.page import HERE, render
from llm_decpomdp.benchmarks.runs.results import Results, Row, stored_rows, task_name


def transcripts(experiments: Sequence[Experiment]) -> str:
    """Draw the browser of all episodes of all runs; empty where there is none."""
    pack = Pack()
    for experiment in experiments:
        for run in experiment.runs:
            pack.add_run(run, experiment.name if len(experiments) > 1 else "")
    if not pack.episodes:
        return ""
    return (HERE / "transcripts.html").read_text(encoding="utf-8") + "".join(pack.blocks())


class Pack:
    """Packed episodes of a page."""

    # A chunk is unpacked within some milliseconds, and a page of thousands of episodes has some
    # dozens.
    CHUNK = 300_000
    """Characters of JSON from which a new chunk is begun."""

    def __init__(self) -> None:
        self.runs: list[Row] = []
        self.tasks: dict[str, int] = {}
        self.components: dict[str, int] = {}
        self.episodes: list[list[Any]] = []
        """For each episode its run, phase, update, task, and for each group the turn, rewards and solved."""
        self._shared: dict[str, int] = {}
        self._starts: list[int] = []
        self._chunks: list[str] = []
        self._texts: list[str] = []
        self._size = 0

    def add_run(self, run: Results, experiment: str) -> None:
        """Add all episodes of a run."""
        seed = run.manifest.get("seed")
        about = {"name": run.path.name, "seed": seed, "experiment": experiment}
        self.runs.append({**about, "trained": bool(run.train)})
        for _, row in stored_rows(run.path / "episodes.jsonl"):
            self._add(row)

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
        yield render("chunk", "index", _compress(json.dumps(index, separators=(",", ":"))))
        yield render(
            "chunk", "shared", _compress(json.dumps(list(self._shared), separators=(",", ":")))
        )
        for number, text in enumerate(self._chunks):
            yield render("chunk", f"chunk-{number}", text)

    def _add(self, row: Row) -> None:
        if not self._texts:
            self._starts.append(len(self.episodes))
        task = self.tasks.setdefault(task_name(row), len(self.tasks))
        groups = [
            [g["turn"], _round(g["rewards"]), _solved_flags(g["infos"])] for g in row["groups"]
        ]
        phase = 1 if row["phase"] == "eval" else 0
        self.episodes.append([len(self.runs) - 1, phase, row["update"], task, groups])
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
        """Return the texts and verdicts of an episode, which the index has not."""
        final: Row = row["final"] or {}
        turns: list[Row] = final.get("turns", [])
        if len(turns) != len(
            row["groups"]
        ):  # a wrapper may play others than its environment records
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
            "prompts": {a: self._share(text) if first else text for a, text in prompts.items()},
            "completions": group["completions"],
            "reasons": group["finish_reasons"],
            "joint": group["joint"],
            "points": [self._points(info) for info in group["infos"]],
            "tests": [
                [info["tests_passed"], info["tests_total"]] if "tests_total" in info else None
                for info in group["infos"]
            ],
        }

    def _points(self, info: Mapping[str, float]) -> list[list[float]]:
        """Return pairs of a component's number and its points."""
        return [
            [self.components.setdefault(key[7:], len(self.components)), round(value, 4)]
            for key, value in info.items()
            if key.startswith("reward/")
        ]

    def _verdict(self, verdict: Row) -> Row:
        details = verdict["details"]
        tests = [
            [self._share(t["case"]), t["passed"], t["status"], t["message"], t["origin"], t["line"]]
            for t in details.get("tests", ())
        ]
        return {"tests": tests, "error": (details.get("error") or {}).get("message")}

    def _share(self, text: str) -> int:
        return self._shared.setdefault(text, len(self._shared))


def _solved_flags(infos: Sequence[Mapping[str, float]]) -> list[int] | None:
    """Return flags of the joint samples that solved the task; `None` where the environment has none."""
    if not infos or "solved" not in infos[0]:
        return None
    return [int(info["solved"]) for info in infos]


def _round(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]


def _compress(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
