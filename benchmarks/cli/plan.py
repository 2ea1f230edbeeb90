"""The command `plan`."""

from __future__ import annotations

from typing import Annotated

import typer

from llm_decpomdp.benchmarks.cli.options import Overrides


def plan(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="Name or path of a configuration.")
    ],
    gpus: Annotated[
        str,
        typer.Option(
            metavar="[N]xKIND",
            help="Devices: 8xh100, 1xa100, h200, l40s, 4090, or cpu, which is measured for a second.",
        ),
    ] = "cpu",
    override: Overrides = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Replace a number of the last table, or prompt, the tokens of one.",
        ),
    ] = None,
    parameters: Annotated[
        float | None,
        typer.Option(min=1, help="Weights of a model whose size nothing tells, such as 7.6e9."),
    ] = None,
    lag: Annotated[
        int | None,
        typer.Option(min=0, help="Updates by which sampling is ahead, in place of algorithm.lag."),
    ] = None,
) -> None:
    """Say what a run needs on given devices, and where its time goes; refuse what cannot fit."""
    from llm_decpomdp.benchmarks.config.catalogue import find_config
    from llm_decpomdp.benchmarks.config.load import read_config
    from llm_decpomdp.benchmarks.planning.plan import plan as plan_run
    from llm_decpomdp.benchmarks.planning.show import show

    settings = read_config(find_config(config), override or (), {})
    show(plan_run(settings, gpus, assume=assume or (), parameters=parameters, lag=lag))
