"""Quality of the composition tasks, in Markdown: `python -m tools.quality.compose`.

It prints, for each kind of tasks, their number, the exact bound of one agent alone (`best_alone`), and how many
references of a sample earn the full reward. An example follows.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.compose.chains import INPUTS, Chains, find_split, run
from llm_decpomdp.envs.compose.roles import EntryRole
from llm_decpomdp.envs.compose.tasks import compose_task
from llm_decpomdp.oracle import answers
from llm_decpomdp.registry import make

KINDS = (
    ("all", "none"),
    ("numbers", "none"),
    ("lists", "none"),
    ("text", "none"),
    ("all", "name"),
    ("all", "encoding"),
)
"""Types and conventions."""


@dataclass(frozen=True)
class Bound:
    """The best response of `main_0` alone to all tasks, which are equally likely."""

    tasks: int
    prompts: int
    """Number of different prompts of `main_0`."""
    tests: float
    """Maximum share of passed tests, from 0 to 1."""
    solved: float
    """Maximum share of tasks whose tests all pass, from 0 to 1."""


def best_alone(split: str, types: str = "all", convention: str = "none") -> Bound:
    """Return an exact bound on `main_0` without a helper, for chains of two steps; arguments as of `compose-v0`.

    The agent's function depends on its prompt only, and the tests have the same arguments in every task. So over
    the tasks with one prompt, the best function returns the most frequent result for an argument, and passes all
    tests of the tasks with the most frequent results. The bound takes this function for each prompt. It knows all
    tasks of the split and their frequencies, which no agent does. `aux_0` alone passes no test, since the entry
    function is missing.
    """
    results: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    role = EntryRole(2, convention)
    places = (1,) if convention == "encoding" else (0, 1)
    for chain in Chains(2, types, convention).all():
        if find_split(chain) == split:
            values = tuple(repr(run(chain, argument)) for argument in INPUTS[chain[0].source])
            for place in places:
                row = {"index": 0, "chain": chain, "place": place}
                results[role.instructions(compose_task(0, row))].append(values)
    total = sum(map(len, results.values()))
    solved = sum(_most(rows) for rows in results.values())
    shares = [
        _most(column) / len(rows[0])
        for rows in results.values()
        for column in zip(*rows, strict=True)
    ]
    return Bound(total, len(results), sum(shares) / total, solved / total)


def _most(values: Iterable[Hashable]) -> int:
    """Count the most frequent value."""
    return max(Counter(values).values())


def references_solve(env: DecPOMDPEnv, count: int | None = None) -> list[bool]:
    """Play the references of evenly spaced tasks; return whether they earn the full reward.

    Args:
        env: The environment.
        count: Number of tasks; all by default.
    """
    tasks = env.tasks.tasks
    solved = []
    for task in tasks[:: max(1, len(tasks) // count) if count else 1]:
        env.reset(options={"task_id": task.task_id})
        *_, infos = env.step(dict(answers(env).references))
        solved.append(bool(infos[env.possible_agents[0]]["solved"]))
    return solved


def line(types: str, convention: str, split: str, sample: int) -> str:
    """Return a row of the table."""
    bound = best_alone(split, types, convention)
    env = make("compose-v0", types=types, convention=convention, split=split)
    solved = references_solve(env, sample)
    return (
        f"| {types} | {convention} | {split} | {bound.tasks} | {bound.tests:.3f} | {bound.solved:.3f} "
        f"| {sum(solved)} of {len(solved)} |"
    )


def example(env: DecPOMDPEnv, seed: int = 0) -> str:
    """Return the prompts and references of a task."""
    prompts, _ = env.reset(seed=seed)
    gold = answers(env)
    parts = [f"--- observation of {agent} ---\n{text}" for agent, text in prompts.items()]
    return "\n\n".join(
        [*parts, *(f"--- reference of {a} ---\n{gold.reference(a)}" for a in prompts)]
    )


def main() -> None:
    """Print the table and an example."""
    parser = argparse.ArgumentParser(description="quality of the composition tasks")
    parser.add_argument("--sample", type=int, default=100, help="number of references of each kind")
    sample = parser.parse_args().sample
    print("| types | convention | split | tasks | tests alone | solved alone | references solve |")
    print("|---|---|---|---|---|---|---|")
    for types, convention in KINDS:
        for split in ("train", "test"):
            print(line(types, convention, split, sample), flush=True)
    print(f"\n{example(make('compose-v0'))}")


if __name__ == "__main__":
    main()
