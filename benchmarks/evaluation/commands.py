"""The command `eval` of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command("eval")
def eval_(
    config: Annotated[
        str | None,
        typer.Option(help="Name or path of a configuration, whose team plays untrained."),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="KEY=VALUE ...", help="Set keys of the configuration."),
    ] = None,
    team: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A saved team, or a run, instead.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Which team of a run: final, best or last.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="A baseline instead, such as single_agent, gold or random.")
    ] = None,
    env: Annotated[
        str | None, typer.Option(help="An environment instead of the configuration's.")
    ] = None,
    env_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An argument of the environment.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Which problems, such as test[:16]; by default the held-out.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="How many of them, from the first on.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Episodes of each problem.")] = 1,
    k: Annotated[
        list[int] | None, typer.Option("--k", help="Of pass@k; may be given several times.")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the likeliest token.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Decides what is sampled.")] = 0,
    at_a_time: Annotated[int, typer.Option(min=1, help="Episodes that are played together.")] = 64,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the results go.")
    ] = None,
) -> None:
    """Measure a team or a baseline, with intervals. Stopped, the same command goes on."""
    from llm_decpomdp.benchmarks.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.evaluation import command as evaluating

    prepare_process()
    with exit_codes():
        evaluating.run(
            evaluating.Request(
                config=config,
                overrides=override or (),
                team=team,
                checkpoint=checkpoint,
                baseline=baseline,
                env=env,
                env_options=env_option or (),
                split=split,
                tasks=tasks,
                samples=samples,
                k=k or (),
                greedy=greedy,
                seed=seed,
                at_a_time=at_a_time,
                output=output,
            )
        )
