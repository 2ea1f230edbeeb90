"""The command `eval` of the command line, and the options that others share with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="KEY=VALUE ...", help="Set keys of the configuration."),
]
Checkpoint = Annotated[str | None, typer.Option(help="Which team of a run: final, best or last.")]
Env = Annotated[str | None, typer.Option(help="An environment instead of the configuration's.")]
EnvOptions = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="An argument of the environment.")
]
Split = Annotated[
    str | None,
    typer.Option(
        help="Which problems, such as test[:16]; by default the held-out, of --env its usual."
    ),
]
Tasks = Annotated[int | None, typer.Option(min=1, help="How many of them, from the first on.")]
Samples = Annotated[int, typer.Option(min=1, help="Episodes of each problem.")]
Greedy = Annotated[bool, typer.Option("--greedy", help="Take the likeliest token.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides what is sampled.")]
AtATime = Annotated[int, typer.Option(min=1, help="Episodes that are played together.")]
Output = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the results go.")]


@app.command("eval")
def eval_(
    config: Annotated[
        str | None,
        typer.Option(help="Name or path of a configuration, whose team plays untrained."),
    ] = None,
    override: Overrides = None,
    team: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A saved team, or a run, instead.")
    ] = None,
    checkpoint: Checkpoint = None,
    baseline: Annotated[
        str | None, typer.Option(help="A baseline instead, such as single_agent, gold or random.")
    ] = None,
    env: Env = None,
    env_option: EnvOptions = None,
    split: Split = None,
    tasks: Tasks = None,
    samples: Samples = 1,
    k: Annotated[
        list[int] | None, typer.Option("--k", help="Of pass@k; may be given several times.")
    ] = None,
    greedy: Greedy = False,
    seed: Seed = 0,
    at_a_time: AtATime = 64,
    output: Output = None,
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
