"""Noise of team-mates in an agent's advantages, by the number of agents and the joint samples.

    python -m tools.performance.models.credit_noise

What noise is: `noise_to_signal`.
"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from studies.hypotheses.credit import WAYS, noise_to_signal


def main(
    groups: Annotated[int, typer.Option(min=1, help="Groups of each cell of the table.")] = 400,
    group_size: Annotated[int, typer.Option(min=2, help="Completions of each agent.")] = 4,
) -> None:
    """Print noise over signal of an agent's advantages."""
    table = Table("agents", *WAYS)
    for num_agents in (2, 4, 8, 16):
        ratios = [
            noise_to_signal(way, num_agents, group_size=group_size, groups=groups) for way in WAYS
        ]
        table.add_row(str(num_agents), *(f"{ratio:.3f}" for ratio in ratios))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
