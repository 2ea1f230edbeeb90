"""Hypotheses that are declared in a folder before anything is measured, then judged.

The folder has `declaration.json` with the declarations and their fingerprint, a file for each hypothesis and seed,
and at the end `verdicts.json`, `science.md` and `report.html`. A second start measures only the missing seeds. A
folder with other declarations than the code is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from itertools import starmap
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.runs.manifest import commit
from llm_decpomdp.utils.storage import write_atomically
from llm_decpomdp.validation import unknown
from studies.hypotheses import credit, horizon, losses, messages, teams, topology
from studies.hypotheses.hypothesis import Hypothesis, Measures, fingerprint
from studies.hypotheses.verdicts import Verdict, judge

CHECKOUT = Path(__file__).resolve().parents[2]

HYPOTHESES: tuple[Hypothesis, ...] = (
    *credit.HYPOTHESES,
    *horizon.HYPOTHESES,
    *teams.HYPOTHESES,
    *messages.HYPOTHESES,
    *losses.HYPOTHESES,
    *topology.HYPOTHESES,
)

RULE = (
    "A hypothesis is confirmed if all of its predictions hold, refuted if one does not, both at 5 % after Holm's "
    "correction over all hypotheses of the suite, and undecided otherwise (tests by flipped signs)."
)
"""The rule of verdicts; `verdicts.py` has the details."""

DECLARATION, VERDICTS = "declaration.json", "verdicts.json"


def run_science(folder: Path, only: Sequence[str] = (), cores: int = 1) -> Iterator[str]:
    """Measure the missing seeds of a folder, and yield a line for each one.

    Args:
        folder: Folder of the suite.
        only: Ids of hypotheses; by default all.
        cores: Number of processes.

    Raises:
        ConfigError: If the folder has other declarations, or an id is unknown.
    """
    by_id = {hypothesis.id: hypothesis for hypothesis in HYPOTHESES}
    for name in only:
        if name not in by_id:
            raise ConfigError(unknown("hypothesis", name, by_id))
    declare(folder)
    missing = [
        (hypothesis.id, seed)
        for hypothesis in HYPOTHESES
        if not only or hypothesis.id in only
        for seed in hypothesis.seed_numbers
        if not _file(folder, hypothesis.id, seed).exists()
    ]
    if not missing:
        return
    with ExitStack() as stack:
        if cores > 1:
            # Forked processes would share the threads of torch.
            spawning = get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(cores, mp_context=spawning))
            stack.callback(pool.shutdown, cancel_futures=True)
            results = pool.map(partial(_measure, folder), *zip(*missing, strict=True))
        else:
            results = starmap(partial(_measure, folder), missing)
        for number, ((name, seed), seconds) in enumerate(zip(missing, results, strict=True), 1):
            yield f"{number}/{len(missing)}: {name}, seed {seed}, {seconds:.1f} s"


def declare(folder: Path) -> str:
    """Write the declarations into a folder, or compare them with its own, and return their fingerprint.

    Raises:
        ConfigError: If the folder has other declarations.
    """
    declaration: dict[str, Any] = {
        "hypotheses": [hypothesis.declaration() for hypothesis in HYPOTHESES],
        "rule": RULE,
        "code": {path.name: sha256(path.read_bytes()).hexdigest() for path in _code()},
    }
    mark, path = fingerprint(declaration), folder / DECLARATION
    if path.exists():
        if (before := json.loads(path.read_text())["fingerprint"]) != mark:
            raise ConfigError(
                f"{folder} has other declarations ({before[:12]}, now {mark[:12]}), which cannot change after the "
                "start: give another --output"
            )
        return mark
    folder.mkdir(parents=True, exist_ok=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    content = {
        "fingerprint": mark,
        "declared": now,
        "version": version("llm_decpomdp"),
        "commit": commit(CHECKOUT),
        **declaration,
    }
    write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False))
    return mark


def read_verdicts(folder: Path) -> list[Verdict]:
    """Judge the hypotheses with measurements of all seeds, and write `verdicts.json`."""
    measured = {
        hypothesis.id: rows for hypothesis in HYPOTHESES if (rows := _rows(folder, hypothesis))
    }
    hypotheses = [h for h in HYPOTHESES if h.id in measured]
    verdicts = judge(hypotheses, measured, family=len(HYPOTHESES))
    write_atomically(folder / VERDICTS, json.dumps([_to_json(v) for v in verdicts], indent=2))
    return verdicts


def _code() -> list[Path]:
    """Return the files of the declaration: those that measure and judge."""
    return [
        path
        for path in sorted(Path(__file__).parent.glob("*.py"))
        if path.name not in ("page.py", "__main__.py")
    ]


def _rows(folder: Path, hypothesis: Hypothesis) -> list[Measures]:
    """Return the measures of each seed; none if a seed is missing."""
    paths = [_file(folder, hypothesis.id, seed) for seed in hypothesis.seed_numbers]
    if not all(path.exists() for path in paths):
        return []
    return [json.loads(path.read_text())["measures"] for path in paths]


def _measure(folder: Path, name: str, seed: int) -> float:
    """Measure a hypothesis with a seed, and return the seconds."""
    (hypothesis,) = (h for h in HYPOTHESES if h.id == name)
    threads = torch.get_num_threads()
    # The last digits of floating-point sums depend on the number of threads.
    torch.set_num_threads(1)
    begin = time.perf_counter()
    try:
        measures = dict(hypothesis.measure(seed))
    finally:
        torch.set_num_threads(threads)
    seconds = time.perf_counter() - begin
    content = {"hypothesis": name, "seed": seed, "measures": measures, "seconds": seconds}
    write_atomically(_file(folder, name, seed), json.dumps(content))
    return seconds


def _file(folder: Path, name: str, seed: int) -> Path:
    return folder / f"{name}-seed-{seed}.json"


def _to_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "id": verdict.hypothesis.id,
        "verdict": verdict.word,
        "p": verdict.p,
        "clauses": [
            {
                "words": finding.clause.words,
                "mean": finding.mean,
                "low": finding.low,
                "high": finding.high,
                "bound": finding.clause.bound,
                "seeds": finding.seeds,
            }
            for finding in verdict.findings
        ],
    }
