"""A plan as tables: work, layouts, memory, and all that was assumed."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.planning.assumptions import shown
from llm_decpomdp.benchmarks.planning.devices import SPECIFIED
from llm_decpomdp.benchmarks.planning.layouts import Layout
from llm_decpomdp.benchmarks.planning.plan import PROMPT, Plan
from llm_decpomdp.benchmarks.planning.work import Model

FILE_WIDTH = 140
"""Columns of a table that goes to no terminal."""

MOST_LAYOUTS = 6

PARTS = ("sampling", "programs", "learning", "publishing")


def show(plan: Plan) -> None:
    """Print a plan."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)
    for line in work_lines(plan):
        console.print(line, markup=False, soft_wrap=True)
    for table in (_layouts(plan), _memory(plan.best), _assumed(plan)):
        console.print()
        console.print(table)
    for line in closing_lines(plan):
        console.print(line, markup=False, soft_wrap=True)


def work_lines(plan: Plan) -> Iterator[str]:
    """Yield the work of an update as lines: upper bounds."""
    work, config = plan.work, plan.run.config
    yield f"{config.algorithm.name}, {config.algorithm.plan}, on {config.env.id}, on {plan.fleet}"
    for model in work.models:
        yield f"  {_described(model)}"
    update = work.cost.update
    yield (
        f"an update, at most: {work.starts * work.rounds:,} starts, {update.completions:,} completions of each "
        f"agent, {update.joint_samples:,} joint samples, {work.tokens:,.0f} tokens, {work.programs:,} programs"
    )
    prompts = sum(map(work.prompts, work.models))
    yield f"prompts, each once for its group: about {prompts:,.0f} tokens"
    yield f"the run: {work.updates:,} updates; evaluations, warm starts and critics come on top"
    if further := list(left_out(config)):
        yield f"left out, in memory and in seconds: {'; '.join(further)}"


def left_out(config: Config) -> Iterator[str]:
    """Yield what a configuration wants beside the team, its learning and its servers."""
    algorithm, workers = config.algorithm, config.cluster.rollout_workers
    if algorithm.named_comparator is not None:
        yield f"the comparator, another team in {algorithm.named_comparator} that samples and runs programs too"
    if workers:
        copies = "a copy" if workers == 1 else f"{workers} copies"
        of = "frozen policies that no server samples" if config.sampler.served else "the team"
        yield f"{copies} of {of} in the rollout workers of each process, on the same devices"
    if algorithm.critic_trunk != "frozen":
        yield "the passes with gradients of the critic's adapter"


def _described(model: Model) -> str:
    kind = "all weights" if model.full else "frozen"
    if model.trained and not model.full:
        kind = f"adapters of {model.adapters / 1e6:,.1f} M weights"
    return (
        f"{', '.join(model.policies)}: {model.name}, {model.shape.parameters / 1e9:.2f} billion weights, {kind}, "
        f"{model.dtype}, prompts of about {model.players[0].prompt:,.0f} tokens"
    )


def closing_lines(plan: Plan) -> Iterator[str]:
    """Yield the bottleneck, and what the plan cannot know."""
    best = plan.best
    share = best.seconds[best.bottleneck] / sum(best.seconds.values())
    yield ""
    yield f"bottleneck: {best.bottleneck}, {share:.0%} of the work of an update ({best.name})"
    yield from best.notes
    if not plan.fleet.on_cpu:
        yield (
            "arithmetic over data sheets, compared with no GPU so far: trust orders of magnitude, and ratios "
            "more than times"
        )


def _layouts(plan: Plan) -> Table:
    title = "ways to use the devices: seconds of an update, gigabytes of the fullest device"
    table = Table(title=title, title_justify="left")
    table.add_column("layout")
    for name in (*PARTS, "update", "hours of the run", "memory"):
        table.add_column(name, justify="right")
    together = [row for row in plan.layouts if not row.sampling]
    listed = list(plan.layouts[:MOST_LAYOUTS])
    for row in [*listed, *(row for row in together if row not in listed)]:
        memory = f"{row.missing + row.usable:.1f} of {row.usable:.1f}"
        if not row.fits:
            table.add_row(row.name, *["-"] * (len(PARTS) + 2), f"{memory}: too much")
            continue
        parts = (_seconds(row.seconds[part]) if part in row.seconds else "" for part in PARTS)
        hours = row.update * plan.work.updates / 3600
        table.add_row(row.name, *parts, _seconds(row.update), f"{hours:,.2f}", memory)
    return table


def _memory(best: Layout) -> Table:
    table = Table(title=f"gigabytes of a device ({best.name})", title_justify="left")
    table.add_column("part")
    for place in best.memory:
        table.add_column(place, justify="right")
    names = dict.fromkeys(part for memory in best.memory.values() for part in memory.parts)
    for name in names:
        sizes = [memory.parts.get(name, 0.0) for memory in best.memory.values()]
        if any(sizes):
            table.add_row(name, *(_gigabytes(size) if size else "" for size in sizes))
    table.add_section()
    table.add_row("in all", *(f"{memory.gigabytes:.2f}" for memory in best.memory.values()))
    return table


def _assumed(plan: Plan) -> Table:
    table = Table(title="assumed; change with --assume name=value", title_justify="left")
    for name, side in (("name", "left"), ("value", "right"), ("unit", "left"), ("source", "left")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    device = plan.fleet.device
    of_device = [
        row._replace(source=f"{row.source}: {device.source}") if row.name in SPECIFIED else row
        for row in shown(device)
    ]
    for row in (*of_device, *shown(plan.assumed)):
        source = "yours" if row.name in plan.set_by_user else row.source
        table.add_row(row.name, f"{row.value:,.4g}", row.unit, source)
    if PROMPT in plan.set_by_user:
        table.add_row(PROMPT, f"{plan.work.models[0].players[0].prompt:,.4g}", "tokens", "yours")
    return table


def _seconds(value: float) -> str:
    return f"{value:,.2f}" if value >= 0.01 or not value else "<0.01"


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f}" if size >= 5e6 else "<0.01"
