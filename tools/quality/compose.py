"""Quality of the composition tasks, in Markdown: `python -m tools.quality.compose`.

For each kind of tasks the number of those that can be drawn, the exact bound of one agent alone
(`llm_decpomdp.envs.compose.alone`), and the share of a sample's references that earn full marks; then an example.
"""

from __future__ import annotations

import argparse

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.compose.alone import best_alone
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


def references_solve(env: DecPOMDPEnv, count: int | None = None) -> list[bool]:
    """Play the references of evenly spaced tasks; return whether they earn full marks.

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
    parts = [f"--- {agent} sees ---\n{text}" for agent, text in prompts.items()]
    return "\n\n".join([*parts, *(f"--- {a} answers ---\n{gold.reference(a)}" for a in prompts)])


def main() -> None:
    """Print the table, and an example."""
    parser = argparse.ArgumentParser(description="quality of the composition tasks")
    parser.add_argument("--sample", type=int, default=100, help="references to play of each kind")
    sample = parser.parse_args().sample
    print("| types | convention | split | tasks | tests alone | solved alone | references solve |")
    print("|---|---|---|---|---|---|---|")
    for types, convention in KINDS:
        for split in ("train", "test"):
            print(line(types, convention, split, sample), flush=True)
    print(f"\n{example(make('compose-v0'))}")


if __name__ == "__main__":
    main()
